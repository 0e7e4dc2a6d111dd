"""Results of @once: stored by the return annotation, replayed as the same type, or never again."""

import asyncio
import enum
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, TypeVar
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretStr, computed_field

from onceward.client import Onceward
from onceward.console.outcome_views import detail_of
from onceward.errors import (
    NotCanonical,
    OncewardError,
    RecordedFailure,
    ResultNotStored,
)
from onceward.outcomes import Done, EffectState, NotStored, OutcomeState, effect
from onceward.outcomes.claims import ClaimRequest
from onceward.outcomes.http_response import rejection_response
from onceward.outcomes.views import record_json
from onceward.stores import Transaction
from onceward.testing.moving_time import MovingTime
from tests.support.counted_charges import Shop, only, shop

__all__ = ["shop"]

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    at: datetime


@dataclass(frozen=True)
class Line:
    price: Decimal
    tags: frozenset[str]


class Receipt(BaseModel):
    model_config = ConfigDict(extra="forbid")
    order_id: int = Field(validation_alias="orderId", serialization_alias="order")
    at: datetime
    lines: list[Line] = []

    @computed_field  # type: ignore[prop-decorator]  # as pydantic wants it
    @property
    def total(self) -> Decimal:
        return sum((line.price for line in self.lines), Decimal(0))


class Page(BaseModel, Generic[T]):
    items: list[T]


class Ids(RootModel[dict[UUID, int]]):
    pass


NOW = datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=UTC)
ID = UUID("0d5c4a3e-6d0e-4a6b-9a53-0a1f7e3b2c11")
LINE = Line(Decimal("1.50"), frozenset({"a", "b"}))
RECEIPT = Receipt.model_validate({"orderId": 7, "at": NOW, "lines": [LINE]})

TYPED: list[tuple[Any, Any]] = [
    (Receipt, RECEIPT),
    (Receipt | None, RECEIPT),
    (Receipt | None, None),
    (list[Receipt] | dict[str, Receipt], {"a": RECEIPT}),
    (Page[Receipt], Page[Receipt](items=[RECEIPT])),
    (Ids, Ids({ID: 1})),
    (Line, Line(Decimal("1E+2"), frozenset())),
    (Point, Point(1, NOW)),
    (datetime, NOW),
    (date, NOW.date()),
    (timedelta, timedelta(days=-1, microseconds=3)),
    (UUID, ID),
    (Decimal, Decimal("0.10")),
    (Color, Color.RED),
    (set[int], {3, 1}),
    (tuple[int, ...], (1, 2)),
    (dict[int, str], {1: "a"}),
    (dict[date, set[UUID]], {date(2026, 1, 1): {ID}}),
    (float, 2.0),
    (dict[str, float], {"a": 2.0}),
    (int, 2**63),
    (int, 10**400),
    (int | str, 10**400),
    (list[int], [2**70]),
    (bytes, b"\x00\xff"),
    (Path, Path("/a")),
    (int, 7),
    (str, "x"),
    (dict[str, Any], {"a": [1, None]}),
    (Annotated[int, ["no hash"]], 7),
    (None, None),
]


def test_h51_a_replay_equals_the_first_answer_and_its_type(ow: Onceward) -> None:
    """The annotated type comes back, for the first caller and for every later one."""
    for number, (annotation, value) in enumerate(TYPED):
        calls, work = returning(annotation, value)
        first, again = (ow.once(key=f"k{number}")(work)() for _ in range(2))
        assert first == again == value
        assert type(first) is type(again) is type(value)
        assert calls == [1]
    assert {record_json(each)["state"] for each in ow.outcomes.list()} == {"done"}


def returning(annotation: Any, value: Any) -> tuple[list[int], Callable[[], Any]]:
    """Return a function with this annotation, and where its calls are counted."""
    calls: list[int] = []

    def work() -> Any:
        calls.append(1)
        return value

    work.__annotations__["return"] = annotation
    return calls, work


class Nosy:
    """Has neither JSON nor a schema."""


#: What a function says it returns, and what it returns, which cannot be stored.
UNSTORABLE: list[Any] = [
    (Any, Nosy()),
    (Nosy, Nosy()),
    (dict[str, Any], {"at": NOW}),
    (float, math.nan),
    (str, "\ud800"),
    (SecretStr, SecretStr("hunter2")),
    (list[SecretStr], [SecretStr("hunter2")]),
    (Any, iter([])),
    (int, 10**5000),
]


@pytest.mark.parametrize("style", ["def", "async def", "tx", "async tx"])
def test_h50_a_result_that_cannot_be_stored_never_runs_again(ow: Onceward, style: str) -> None:
    """It is done without a result: the first caller has the value, no caller runs it again."""
    with ow.transaction() as tx:
        tx.execute("create table paid (key text)")
    for number, (annotation, value) in enumerate(UNSTORABLE):
        check_it_never_runs_again(ow, f"k{number}", annotation, value, style)


def check_it_never_runs_again(
    ow: Onceward, key: str, annotation: Any, value: Any, style: str
) -> None:
    shop = Shop()

    def work() -> Any:
        shop.charge(1)
        return value

    async def work_async() -> Any:
        return work()

    def work_tx(tx: Transaction) -> Any:
        tx.execute("insert into paid values (?)", [key])
        return work()

    async def work_async_tx(tx: Transaction) -> Any:
        return work_tx(tx)

    made: Any = dict(
        zip(
            ["def", "async def", "tx", "async tx"],
            [work, work_async, work_tx, work_async_tx],
            strict=True,
        )
    )[style]
    made.__annotations__["return"] = annotation
    decorated = ow.once(key=key)(made)
    call: Callable[[], Any] = decorated
    if "async" in style:
        call = lambda: asyncio.run(decorated())  # noqa: E731 - the same call, awaited
    with pytest.raises(ResultNotStored) as first:
        call()
    assert first.value.value is value
    for _ in range(2):
        with pytest.raises(ResultNotStored) as again:
            call()
        assert again.value.value is None
        assert (again.value.code, again.value.retryable) == ("RESULT_NOT_STORED", False)
        assert "key" not in again.value.fix
        assert "forget" not in again.value.fix
    assert shop.charged == [1]
    with ow.transaction() as tx:
        paid = tx.execute("select key from paid where key = ?", [key])
        assert paid == ([(key,)] if "tx" in style else [])
    (record,) = [each for each in ow.outcomes.list() if each.key == key]
    assert (record.state, record.result, record.failure) == (OutcomeState.DONE, None, None)
    asked = ow.outcomes.claim(record.scope, key, fingerprint=record.fingerprint or "", owner="o")
    assert asked == NotStored()
    assert rejection_response(asked, ClaimRequest(record.scope, key, "", "o")).status == 409
    assert record_json(record)["has_result"] is False
    assert "could not be stored" in detail_of(record, []).attempts[-1].detail


def test_h50_joined_work_stays_with_its_outcome(ow: Onceward) -> None:
    """In a caller's transaction that commits, what was written and the end of it stay together."""
    with ow.transaction() as tx:
        tx.execute("create table paid (id bigint)")

    @ow.once(key="k")
    def pay(tx: Transaction) -> object:
        tx.execute("insert into paid values (1)")
        return Nosy()

    for _ in range(2):
        with ow.transaction() as tx:
            with pytest.raises(ResultNotStored):
                pay()  # type: ignore[call-arg]
            assert tx.execute("select count(*) from paid") == [(1,)]
    assert only(ow) is OutcomeState.DONE


def test_h50_a_step_that_cannot_be_stored_is_not_taken_again(ow: Onceward, shop: Shop) -> None:
    """When its work is run again, the step is done and has no result."""
    seen: list[OncewardError] = []

    def charge() -> object:
        shop.charge(1)
        return Nosy()

    @ow.once(key="k", retry_on=ConnectionError)
    def place() -> str:
        try:
            effect("charge", charge)
        except ResultNotStored as exc:
            seen.append(exc)
        if len(seen) == 1:
            raise ConnectionError
        return "placed"

    with pytest.raises(ConnectionError):
        place()
    assert place() == "placed"
    assert shop.charged == [1]
    assert [type(each) for each in seen] == [ResultNotStored] * 2
    (record,) = ow.outcomes.list()
    (step,) = ow.outcomes.effects(record.scope, record.key)
    assert (step.state, step.result) == (EffectState.DONE, None)


def test_a_step_gives_its_type_back(ow: Onceward, shop: Shop) -> None:
    """The return annotation of a step's function counts for the first run and for a rerun."""
    found: list[Receipt] = []

    def charge() -> Receipt:
        shop.charge(1)
        return RECEIPT

    @ow.once(key="k", retry_on=ConnectionError)
    def place() -> None:
        found.append(effect("charge", charge))
        if len(found) == 1:
            raise ConnectionError

    with pytest.raises(ConnectionError):
        place()
    place()
    assert found == [RECEIPT, RECEIPT]
    assert shop.charged == [1]


def test_a_hook_may_answer_with_a_typed_result(ow: Onceward, ow_time: MovingTime) -> None:
    """What a reconcile hook has found is stored as the function's own result would be."""

    def work() -> Receipt:
        raise AssertionError

    name = f"{work.__module__}.{work.__qualname__}"
    charge = ow.once(key="k", fingerprint=None, reconcile=lambda: Done(RECEIPT))(work)
    ow.outcomes.claim(name, "k", fingerprint="", owner="w", lease_seconds=1.0)
    ow_time.advance(seconds=2)
    assert charge() == charge() == RECEIPT


@pytest.mark.parametrize(
    ("annotation", "value"), [(Receipt, {"other": 1}), (int, "5"), (dict[str, Any], [1]), (bool, 1)]
)
def test_json_that_does_not_fit_is_stored_as_it_is(
    ow: Onceward, caplog: pytest.LogCaptureFixture, annotation: Any, value: Any
) -> None:
    """It is no error of the caller's; the log says so."""

    def work() -> Any:
        return value

    work.__annotations__["return"] = annotation
    with caplog.at_level(logging.WARNING, "onceward.outcomes"):
        assert ow.once(key="k")(work)() == ow.once(key="k")(work)() == value
    assert "does not fit its annotation" in caplog.text


def test_h50_an_inner_failure_that_was_replayed_frees_no_key(ow: Onceward, shop: Shop) -> None:
    """A recorded failure is never retryable, not even where its class is in `retry_on`."""

    class Declined(Exception):
        pass

    reason = ("no", 7)

    @ow.once(key="inner", raises=Declined)
    def inner() -> None:
        shop.charge(1)
        raise Declined(*reason)

    @ow.once(key="outer", retry_on=Exception)
    def outer() -> None:
        inner()

    with pytest.raises(Declined):
        inner()
    with pytest.raises(Declined) as replayed:
        outer()
    assert replayed.value.args == reason
    assert isinstance(replayed.value.__cause__, RecordedFailure)
    with pytest.raises(RecordedFailure, match="Declined"):
        outer()
    assert shop.charged == [1]


def test_a_hook_cannot_change_a_large_integer(ow: Onceward, ow_time: MovingTime) -> None:
    """A verdict that would be stored as another value is refused, and the work stays ambiguous."""

    def work() -> int:
        raise AssertionError

    name = f"{work.__module__}.{work.__qualname__}"
    count = ow.once(key="k", fingerprint=None, reconcile=lambda: Done(2**70))(work)
    ow.outcomes.claim(name, "k", fingerprint="", owner="w", lease_seconds=1.0)
    ow_time.advance(seconds=2)
    with pytest.raises(NotCanonical):
        count()
    assert only(ow) is OutcomeState.AMBIGUOUS


def test_h50_no_advice_leads_to_a_second_effect(ow: Onceward, shop: Shop) -> None:
    """Not after the function was mended, and not where the error has failed work around it."""

    @ow.once(scope="shop.pay", key="k")
    def pay() -> object:
        shop.charge(1)
        return Nosy()

    @ow.once(scope="shop.pay", key="k")
    def pay_mended() -> dict[str, Any]:
        return shop.charge(1)

    def step() -> object:
        shop.charge(2)
        return Nosy()

    @ow.once(key="outer")
    def outer() -> None:
        effect("step", step)

    for call in (pay, pay_mended, outer):
        with pytest.raises(ResultNotStored) as refused:
            call()
        assert "new key" not in refused.value.fix
    with pytest.raises(RecordedFailure, match="ResultNotStored") as recorded:
        outer()
    assert "new key" not in recorded.value.fix
    assert "forget" not in recorded.value.fix
    assert shop.charged == [1, 2]
