"""@once: functions whose every piece of work has one outcome, on SQLite and PostgreSQL."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import (
    FenceLost,
    InvalidArgument,
    KeyAmbiguous,
    KeyExpired,
    KeyInFlight,
    KeyReused,
    NotCanonical,
    OutcomeUnknown,
    RecordedFailure,
    ResultNotStored,
    Retryable,
)
from onceward.outcomes import Done, NotDone, OutcomeState
from onceward.system.crash_points import Crashed
from onceward.testing.moving_time import MovingTime
from tests.support.counted_charges import Shop, only, shop

__all__ = ["shop"]


def silence(ow: Onceward, call: Callable[[], object]) -> None:
    """Make a call that dies in the middle, as a kill would have it, and let its lease expire."""
    with pytest.raises(Crashed):
        call()
    assert only(ow) is OutcomeState.RUNNING


def test_it_runs_once_and_every_caller_gets_the_same(ow: Onceward, shop: Shop) -> None:
    """The first call runs, the others replay; other work runs."""

    @ow.once(key=lambda order: f"charge#{order}")
    def charge(order: int) -> dict[str, Any]:
        return shop.charge(order)

    assert charge(1) == charge(1) == charge(order=1) == {"order": 1, "amount": 10, "number": 1}
    assert charge(2)["number"] == 2
    assert shop.charged == [1, 2]
    assert charge.__name__ == "charge"


def test_the_same_call_has_the_same_key_however_it_is_spelled(ow: Onceward, shop: Shop) -> None:
    """By position, by name, by default: one key, which does not change between versions."""

    @ow.once(scope="shop.charge")
    def charge(order: str, amount: int = 10, *more: int, note: str | None = None) -> object:
        return [shop.charge(order, amount), more, note]

    spelled = [
        charge("a"),
        charge("a", 10),
        charge(order="a"),
        charge(amount=10, order="a"),
        charge("a", note=None),
    ]
    assert shop.charged == ["a"]
    assert all(each == spelled[0] for each in spelled)
    (found,) = ow.outcomes.list()
    assert found.key == "12714332818c0b973c32212bdb353fb52a44f96bed85af30865c631745d8e906"
    charge("a", 11)
    charge("a", 10, 1)
    charge("a", note="x")
    assert len(shop.charged) == 4


def test_first_call_and_replay_return_equal_values(ow: Onceward) -> None:
    """What JSON changes, such as tuples and whole floats, it changes for the first caller too."""

    @ow.once(key="k")
    def measure() -> Any:
        return {"pair": (1, 2), "whole": 2.0, "order": {"b": 1, "a": 2}}

    first, again = measure(), measure()
    assert first == again == {"pair": [1, 2], "whole": 2, "order": {"b": 1, "a": 2}}
    assert [type(first["whole"]), list(first["order"])] == [int, ["b", "a"]]
    assert [type(again["whole"]), list(again["order"])] == [int, ["b", "a"]]


def test_other_arguments_under_the_same_key_are_rejected(ow: Onceward, shop: Shop) -> None:
    """The same key for another amount is a mistake of the caller's, and nothing runs."""

    @ow.once(key=lambda order, _amount: f"charge#{order}")
    def charge(order: int, amount: int) -> object:
        return shop.charge(order, amount)

    charge(1, 10)
    with pytest.raises(KeyReused) as refused:
        charge(1, 99)
    assert refused.value.code == "KEY_REUSED"
    assert refused.value.context["key"] == "charge#1"
    assert shop.charged == [1]


def test_what_is_compared_can_be_chosen(ow: Onceward, shop: Shop) -> None:
    """With fingerprint=None the key alone decides; a function picks what matters."""

    @ow.once(key=lambda order, _socket: f"charge#{order}", fingerprint=None)
    def charge(order: int, _socket: object) -> object:
        return shop.charge(order)

    assert charge(1, object()) == charge(1, object())

    @ow.once(key="refund", fingerprint=lambda order, _socket: order)
    def refund(order: int, _socket: object) -> object:
        return shop.charge(order)

    assert refund(1, object()) == refund(1, object())
    with pytest.raises(KeyReused):
        refund(2, object())


def test_arguments_that_are_not_json_need_a_key(ow: Onceward) -> None:
    """The error names the argument, and what to pass."""

    @ow.once()
    def charge(order: object) -> None:
        pytest.fail(f"must not run with {order}")

    with pytest.raises(NotCanonical, match="charge.order") as refused:
        charge(object())
    assert "pass key= and fingerprint=" in refused.value.fix

    @ow.once(key=lambda order: order)
    def odd(order: Any) -> None:
        pytest.fail(f"must not run with {order}")

    with pytest.raises(InvalidArgument, match="must be a string, not a int"):
        odd(7)
    with pytest.raises(TypeError):
        charge()  # type: ignore[call-arg]
    assert ow.outcomes.list() == []


def test_a_result_that_is_not_json_is_done_without_a_result(ow: Onceward, shop: Shop) -> None:
    """It ran, so it is not run again; the error names where the value was."""

    @ow.once(key="k")
    def charge() -> object:
        shop.charge(1)
        return {"items": [{"price": 1 + 2j}]}

    with pytest.raises(ResultNotStored, match=r"charge k: was done, .*result.items\[0\].price"):
        charge()
    with pytest.raises(ResultNotStored, match="does not run again"):
        charge()
    assert shop.charged == [1]


def test_a_failure_is_recorded_and_raised_again(ow: Onceward, shop: Shop) -> None:
    """Class, message and data are those of the first time; the function does not run again."""

    class Declined(Exception):
        def __init__(self, message: str, data: object) -> None:
            super().__init__(message)
            self.data = data

    @ow.once()
    def charge(order: int) -> None:
        shop.charge(order)
        message = "no funds"
        raise Declined(message, {"code": 51})

    with pytest.raises(Declined):
        charge(1)
    with pytest.raises(RecordedFailure) as again:
        charge(1)
    assert again.value.type.endswith("Declined")
    assert (again.value.failure_message, again.value.data) == ("no funds", {"code": 51})
    assert shop.charged == [1]


@pytest.mark.parametrize("error", [Retryable, ConnectionError])
def test_a_retryable_failure_frees_the_key(
    ow: Onceward, shop: Shop, error: type[Exception]
) -> None:
    """Retryable, and what retry_on names, lets the next call run."""

    @ow.once(retry_on=ConnectionError)
    def charge(order: int) -> object:
        if not shop.charged:
            shop.charge("tried")
            raise error
        return shop.charge(order)

    with pytest.raises(error):
        charge(1)
    assert charge(1) == charge(1)
    assert shop.charged == ["tried", 1]


def test_a_crash_leaves_it_ambiguous(ow: Onceward, ow_time: MovingTime, shop: Shop) -> None:
    """While the lease holds it is in flight, then ambiguous, and it never runs again by itself."""

    @ow.once(lease_seconds=30)
    def charge(order: int) -> None:
        shop.charge(order)
        raise Crashed

    silence(ow, lambda: charge(1))
    with pytest.raises(KeyInFlight) as refused:
        charge(1)
    assert refused.value.context["until"]
    ow_time.advance(seconds=31)
    for _ in range(2):
        with pytest.raises(KeyAmbiguous, match="never reported a result"):
            charge(1)
    assert shop.charged == [1]


def test_harmless_work_runs_again_after_a_crash(
    ow: Onceward, ow_time: MovingTime, shop: Shop
) -> None:
    """Declared on_crash="rerun", it is simply run again when the lease is over."""

    @ow.once(on_crash="rerun", lease_seconds=30)
    def fetch(order: int) -> object:
        if not shop.charged:
            shop.charge("tried")
            raise Crashed
        return shop.charge(order)

    silence(ow, lambda: fetch(1))
    with pytest.raises(KeyInFlight):
        fetch(1)
    ow_time.advance(seconds=31)
    assert fetch(1) == fetch(1)
    assert shop.charged == ["tried", 1]


@pytest.mark.parametrize(
    ("verdict", "runs"), [(Done({"order": "found"}), 1), (NotDone(), 2), (None, 1)]
)
def test_a_hook_decides_what_a_crash_left_open(
    ow: Onceward, ow_time: MovingTime, shop: Shop, verdict: Any, runs: int
) -> None:
    """It is asked with the same arguments; done is the result, not done runs it, None waits."""
    asked: list[int] = []

    def look(order: int) -> Any:
        asked.append(order)
        return verdict

    @ow.once(reconcile=look)
    def charge(order: int) -> Any:
        shop.charge(order)
        if len(shop.charged) == 1:
            raise Crashed
        return {"order": order}

    silence(ow, lambda: charge(1))
    ow_time.advance(seconds=61)
    if verdict is None:
        with pytest.raises(KeyAmbiguous):
            charge(1)
    else:
        assert charge(1) == charge(1) == {"order": "found" if runs == 1 else 1}
    assert asked == [1]
    assert len(shop.charged) == runs


def test_not_knowing_is_ambiguous_at_once(ow: Onceward, shop: Shop) -> None:
    """A function that says it does not know whether it happened is not run again."""

    @ow.once()
    def charge(order: int) -> None:
        shop.charge(order)
        message = "the bank did not answer"
        raise OutcomeUnknown(message)

    with pytest.raises(OutcomeUnknown):
        charge(1)
    with pytest.raises(KeyAmbiguous):
        charge(1)
    assert shop.charged == [1]


def test_results_expire(ow: Onceward, ow_time: MovingTime, shop: Shop) -> None:
    """With a ttl the result goes, and the key is refused until its tombstone goes."""

    @ow.once(ttl=100)
    def charge(order: int) -> object:
        return shop.charge(order)

    charge(1)
    ow_time.advance(seconds=101)
    with pytest.raises(KeyExpired):
        charge(1)
    ow_time.advance(seconds=30 * 86_400)
    charge(1)
    assert shop.charged == [1, 1]


@pytest.fixture
def ticking(ow_url: str) -> Iterator[Onceward]:
    """A store whose time runs by itself: a manual clock would be moved by those who wait."""
    with open_handle(ow_url) as handle:
        yield handle


def test_a_concurrent_caller_waits_for_the_result(ticking: Onceward, shop: Shop) -> None:
    """With wait= a second caller gets the first one's result instead of an error."""
    started, go_on = threading.Event(), threading.Event()

    @ticking.once(wait=60)
    def charge(order: int) -> object:
        started.set()
        assert go_on.wait(60)
        return shop.charge(order)

    results: list[object] = []
    threads = [threading.Thread(target=lambda: results.append(charge(1))) for _ in range(4)]
    threads[0].start()
    assert started.wait(60)
    for thread in threads[1:]:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(each == results[0] for each in results)
    assert shop.charged == [1]


def test_waiting_for_oneself_is_rejected_at_once(ow: Onceward) -> None:
    """A function that calls itself with the same key would wait for ever."""

    @ow.once(key="k", wait=3600)
    def charge() -> object:
        return charge()

    with pytest.raises(KeyInFlight):
        charge()


def test_a_holder_that_was_replaced_learns_it_at_the_end(
    ow: Onceward, ow_time: MovingTime, shop: Shop
) -> None:
    """It ran for longer than its lease without a heartbeat, and another worker took over."""

    @ow.once(on_crash="rerun", lease_seconds=30)
    def charge(order: int) -> object:
        if not shop.charged:
            shop.charge("slow")
            ow_time.advance(seconds=31)
            assert charge(1)
        return shop.charge(order)

    with pytest.raises(FenceLost):
        charge(1)
    assert charge(1) == {"order": 1, "amount": 10, "number": 2}
