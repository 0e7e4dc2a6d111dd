"""Outage recovery: calls fail at once, records are buffered, and replayed afterwards."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import InvalidArgument, StoreUnavailable
from onceward.memory import Memory
from onceward.memory import outage_recovery as outage_module
from onceward.memory.offline_buffer import Buffer
from onceward.memory.outage_recovery import LOG_SECONDS, CircuitBreaker
from onceward.system import ManualClock
from onceward.system.redaction import Redactor

HANG_SECONDS = 60
SECRET = "hunter2-hunter2"
WHERE = ("mcp:test", "m@1", "me/shop", "main")


class _Switch:
    """Takes a store away and brings it back."""

    def __init__(self, ow: Onceward, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_away = False
        self.asked = 0
        for method in ("read", "write", "snapshot"):
            real = getattr(ow.store, method)
            monkeypatch.setattr(ow.store, method, self._guarded(real))

    def _guarded(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.asked += 1
            if self.is_away:
                message = "the switch is off"
                raise StoreUnavailable(message)
            return real(*args, **kwargs)

        return call


@pytest.fixture
def switch(ow: Onceward, monkeypatch: pytest.MonkeyPatch) -> _Switch:
    return _Switch(ow, monkeypatch)


@pytest.fixture
def memory(ow: Onceward) -> Memory:
    return Memory(ow, source=WHERE[0], redactor=Redactor([SECRET]))


@pytest.fixture
def breaker(
    ow: Onceward, memory: Memory, tmp_path: Path, clock: ManualClock, switch: _Switch
) -> Iterator[CircuitBreaker]:
    def make(source: str, mode: str, repo: str, branch: str) -> Memory:
        return Memory(
            ow, source=source, mode=mode, repo=repo, branch=branch, redactor=Redactor([SECRET])
        )

    made = CircuitBreaker(ow, Buffer(tmp_path / "buffer"), make, clock=clock)
    made.start()
    yield made
    switch.is_away = False
    assert made.is_recovered.wait(HANG_SECONDS)
    made.close()
    assert memory.graph.problems() == []


def _error(number: int, **more: Any) -> dict[str, Any]:
    words = ("one", "two", "three", "four", "five")
    return {"message": f"boom {words[number]}", "kind": "E", "detector": "human", **more}


def _recorded(memory: Memory) -> list[str]:
    return [each["name"] for each in memory.read_graph()["entities"]]


def test_h63_records_wait_in_order_and_are_written_once(
    memory: Memory, breaker: CircuitBreaker, switch: _Switch
) -> None:
    """Repeated ones too; what came before, during and after the outage stands in its order."""
    make = ["err#boom one", "err#boom two", "err#boom three", "err#boom four"]
    first = breaker.record("record_error", memory, _error(0), WHERE)
    assert (first["name"], first["entity"]) == (make[0], "created")
    switch.is_away = True
    for number in (1, 2, 1):
        response = breaker.record("record_error", memory, _error(number), WHERE)
        assert (response["name"], response["entityType"]) == (make[number], "Error")
        assert (response["entity"], response["observation"]) == ("buffered", "buffered")
    fix = breaker.record("record_fix", memory, {"issue": make[1], "strategy": "s"}, WHERE)
    by_message = {"issue": "boom two", "strategy": "s"}
    assert breaker.record("record_fix", memory, by_message, WHERE)["name"] == fix["name"]
    assert [each["status"] for each in fix["relations"]] == ["buffered"]
    assert breaker.is_open
    assert breaker.buffer.pending() == 4
    switch.is_away = False
    assert breaker.is_recovered.wait(HANG_SECONDS)
    assert not breaker.is_open
    last = breaker.record("record_error", memory, _error(3), WHERE)
    assert last["entity"] == "created"
    assert _recorded(memory) == [*make[:3], fix["name"], make[3]]
    [found] = memory.graph.open([make[1]]).entities
    assert len(found.observations) == 1
    assert (found.source, '"branch":"main"' in found.observations[0].content) == (WHERE[0], True)


def test_h63_the_name_of_a_fix_that_waits_is_said_to_be_provisional(
    memory: Memory, breaker: CircuitBreaker, switch: _Switch
) -> None:
    """Its issue is given as a message, and may be a warning; with the issue's name it is sure."""
    memory.record_error("old api", kind="W", detector="human", is_warning=True)
    switch.is_away = True
    by_message = {"issue": "old api", "strategy": "s"}
    guessed = breaker.record("record_fix", memory, by_message, WHERE)
    sure = breaker.record("record_fix", memory, {"issue": "warn#old api", "strategy": "t"}, WHERE)
    other = breaker.record("record_error", memory, _error(0), WHERE)
    assert [each.get("isNameProvisional") for each in (guessed, sure, other)] == [True, None, None]
    switch.is_away = False
    assert breaker.is_recovered.wait(HANG_SECONDS)
    found = breaker.record("record_fix", memory, by_message, WHERE)
    assert found["entity"] == "known"
    assert found["name"] != guessed["name"]
    assert "isNameProvisional" not in found
    assert {found["name"], sure["name"]} <= set(_recorded(memory))


def test_h63_calls_fail_at_once_while_the_store_is_away(
    memory: Memory, breaker: CircuitBreaker, switch: _Switch, clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """After the first failure nothing but the probe asks the store; the log is sampled."""
    switch.is_away = True
    with pytest.raises(StoreUnavailable, match="the switch is off"):
        breaker.call(memory.read_graph)
    breaker._probe = switch._guarded(breaker._probe)  # type: ignore[method-assign]
    called: list[int] = []
    for _ in range(100):
        with pytest.raises(StoreUnavailable, match="the switch is off") as caught:
            breaker.call(lambda: called.append(1))
        assert caught.value.code == "UNAVAILABLE"
    assert called == []
    clock.advance(seconds=LOG_SECONDS)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            breaker.call(lambda: None)
    events = [getattr(each, "event", "") for each in caplog.records]
    assert (events.count("store.unavailable"), events.count("store.still_unavailable")) == (1, 1)


def test_h63_the_server_starts_while_the_store_is_away(
    ow: Onceward, breaker: CircuitBreaker, switch: _Switch, tmp_path: Path
) -> None:
    """It is whole by itself once the store is there, with what an earlier process had kept."""
    breaker.close()
    memory = Memory(ow, redactor=Redactor())
    switch.is_away = True
    Buffer(tmp_path / "buffer").append(
        {"method": "record_error", "where": WHERE, "facts": _error(0)}, 0
    )
    later = CircuitBreaker(ow, Buffer(tmp_path / "buffer"), lambda *_: memory)
    later.start()
    assert later.is_open
    switch.is_away = False
    assert later.is_recovered.wait(HANG_SECONDS)
    assert _recorded(memory) == ["err#boom one"]
    later.close()


def test_h63_bad_arguments_are_refused_also_while_the_store_is_away(
    memory: Memory, breaker: CircuitBreaker, switch: _Switch
) -> None:
    """Nothing waits that could never be written."""
    switch.is_away = True
    with pytest.raises(InvalidArgument, match="message: "):
        breaker.record("record_error", memory, _error(0, message=" "), WHERE)
    with pytest.raises(InvalidArgument, match="status"):
        outcome = {"fix": "fix#err#a#00000000", "status": "odd", "verification_method": "v"}
        breaker.record("record_outcome", memory, {**outcome, "duration_to_verify": 1}, WHERE)
    assert breaker.buffer.pending() == 0


def test_h63_no_secret_waits_on_disk(
    memory: Memory, breaker: CircuitBreaker, switch: _Switch, tmp_path: Path
) -> None:
    """They are taken out before anything is written, as ever."""
    switch.is_away = True
    breaker.record("record_error", memory, _error(0, context={"env": f"x {SECRET}"}), WHERE)
    [kept] = (tmp_path / "buffer").glob("*.json")
    assert SECRET not in kept.read_text()


def test_h63_a_record_keeps_the_time_of_its_call(
    memory: Memory, breaker: CircuitBreaker, switch: _Switch, clock: ManualClock
) -> None:
    """Not the time at which it was replayed."""
    switch.is_away = True
    breaker.record("record_error", memory, _error(0), WHERE)
    clock.advance(seconds=3600)
    switch.is_away = False
    assert breaker.is_recovered.wait(HANG_SECONDS)
    [found] = memory.graph.open(["err#boom one"]).entities
    assert found.observations[0].ts == "2026-01-01T00:00:00.000Z"


def test_h63_a_buffer_that_cannot_be_written_says_so(
    memory: Memory, breaker: CircuitBreaker, switch: _Switch, tmp_path: Path
) -> None:
    """The call fails as it would without a buffer, and names both."""
    (tmp_path / "buffer").write_text("no directory")
    switch.is_away = True
    with pytest.raises(StoreUnavailable):
        breaker.record("record_error", memory, _error(0), WHERE)
    (tmp_path / "buffer").unlink()


def test_h63_a_new_record_is_buffered_after_earlier_ones(
    ow: Onceward, memory: Memory, tmp_path: Path
) -> None:
    """The store is there, and an earlier process has left a record: that one goes first."""
    buffer = Buffer(tmp_path / "left")
    buffer.append({"method": "record_error", "where": WHERE, "facts": _error(0)}, 0)
    breaker = CircuitBreaker(ow, buffer, lambda *_: memory)
    assert breaker.record("record_error", memory, _error(1), WHERE)["entity"] == "buffered"
    assert breaker.is_recovered.wait(HANG_SECONDS)
    breaker.close()
    assert _recorded(memory) == ["err#boom one", "err#boom two"]


def test_h63_a_store_that_goes_during_the_replay_is_probed_on(
    memory: Memory, breaker: CircuitBreaker, switch: _Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that finds the store away while the recovery ends does not leave the breaker open."""
    real, message = breaker.buffer.replay, "the store went again"

    def replay_and_lose(do: Any) -> int:
        monkeypatch.setattr(breaker.buffer, "replay", real)
        done = real(do)
        breaker.trip(StoreUnavailable(message, fix="wait"))
        return done

    switch.is_away = True
    breaker.record("record_error", memory, _error(0), WHERE)
    monkeypatch.setattr(breaker.buffer, "replay", replay_and_lose)
    switch.is_away = False
    assert breaker.is_recovered.wait(HANG_SECONDS)
    assert not breaker.is_open
    assert breaker.call(lambda: 1) == 1


def test_h63_a_call_waits_until_what_waited_is_written(
    memory: Memory, breaker: CircuitBreaker, switch: _Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion must not come before the record of what it deletes."""
    real, may_end = breaker.buffer.replay, threading.Event()

    def replay_slowly(do: Any) -> int:
        assert may_end.wait(HANG_SECONDS)
        return real(do)

    switch.is_away = True
    name = breaker.record("record_error", memory, _error(0), WHERE)["name"]
    monkeypatch.setattr(breaker.buffer, "replay", replay_slowly)
    monkeypatch.setattr(outage_module, "REPLAY_WAIT_SECONDS_MAX", 0.0)
    switch.is_away = False
    while breaker.is_open:
        breaker._stopped.wait(0.01)
    with pytest.raises(StoreUnavailable, match="being written"):
        breaker.call(lambda: memory.delete_entities([name]))
    monkeypatch.setattr(outage_module, "REPLAY_WAIT_SECONDS_MAX", HANG_SECONDS)
    may_end.set()
    breaker.call(lambda: memory.delete_entities([name]))
    assert _recorded(memory) == []


def test_h63_no_secret_waits_in_the_place_of_a_record(
    memory: Memory, breaker: CircuitBreaker, switch: _Switch, tmp_path: Path
) -> None:
    """A repository's URL may hold one."""
    switch.is_away = True
    breaker.record(
        "record_error", memory, _error(0), (*WHERE[:2], f"https://u:{SECRET}@h/r", "main")
    )
    kept = [each.read_text() for each in (tmp_path / "buffer").glob("*.json")]
    assert len(kept) == 1
    assert SECRET not in kept[0]


def _run(path: str) -> dict[str, Any]:
    return {
        "started_at": "2026-02-06T12:00:00Z",
        "cmd": "make",
        "exit_code": 0,
        "summary": "s",
        "success": True,
        "duration_ms": 1,
        "files": [path],
    }


def test_h63_a_record_is_replayed_with_the_root_and_validation_it_was_kept_with(
    ow: Onceward, breaker: CircuitBreaker, switch: _Switch
) -> None:
    """A process in another checkout and with other rules writes the names that were reported."""
    options: dict[str, Any] = {"source": WHERE[0], "redactor": Redactor([SECRET])}
    lenient = Memory(ow, validation="lenient", root="/work/shop", **options)
    lenient_only = "err#Boom 17 of 9"
    lenient.create_entities([{"name": lenient_only, "entityType": "Error"}])
    switch.is_away = True
    ran = breaker.record("record_run", lenient, _run("/work/shop/src/app.py"), WHERE)
    assert ran["related"][-1]["name"] == "file#src/app.py"
    fix = breaker.record("record_fix", lenient, {"issue": lenient_only, "strategy": "s"}, WHERE)
    assert fix["name"].startswith(f"fix#{lenient_only}#")
    switch.is_away = False
    assert breaker.is_recovered.wait(HANG_SECONDS)
    names = _recorded(lenient)
    assert (ran["name"] in names, "file#src/app.py" in names, fix["name"] in names) == (True,) * 3
    assert not [each for each in names if each.startswith("file#/")]


def test_h63_the_same_record_of_two_checkouts_waits_twice(
    ow: Onceward, breaker: CircuitBreaker, switch: _Switch
) -> None:
    """The same words name other files there."""
    switch.is_away = True
    for root in ("/work/shop", "/work"):
        memory = Memory(ow, root=root, redactor=Redactor([SECRET]))
        breaker.record("record_run", memory, _run("/work/shop/app.py"), WHERE)
    assert breaker.buffer.pending() == 2
