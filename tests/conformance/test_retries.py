"""Failing messages that hold their cursor: attempts by position, exact waits, then dead."""

from datetime import UTC, datetime

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import InvalidArgument
from onceward.retries import (
    DISPATCH,
    Attempt,
    Dead,
    ExponentialBackoff,
    Failure,
    FixedDelays,
    Later,
    RetryMessage,
)
from onceward.stores.postgres.store import PostgresStore
from onceward.stores.sqlite.store import SqliteStore
from onceward.system import ManualClock
from onceward.testing.moving_time import MovingTime

BROKEN = Failure(type="ValueError", message="broken")
MINUTES = (1, 2, 5, 15, 60)


class StandingTime:
    """A store's time that stands still on both engines, so that a limit can be hit exactly."""

    def __init__(self, ow: Onceward) -> None:
        self._store = ow.store
        self._seconds = 0
        self.advance(seconds=0)

    def advance(self, *, seconds: float) -> None:
        microseconds = round(seconds * 1_000_000)
        self._seconds += microseconds
        if isinstance(self._store, SqliteStore):
            assert isinstance(self._store.clock, ManualClock)
            self._store.clock.advance(seconds=seconds)
            return
        assert isinstance(self._store, PostgresStore)
        with self._store.connection() as connection:
            connection.execute(
                "create or replace function onceward_now() returns timestamptz language sql "
                "volatile as $$ select timestamptz '2026-01-01Z' + "
                f"interval '{self._seconds} microseconds' $$".encode(),
                prepare=False,
            )


@pytest.fixture
def standing(ow: Onceward) -> StandingTime:
    return StandingTime(ow)


def message(position: str = "7", *, key: str | None = None, cursor: str = "leads") -> RetryMessage:
    raw = b'{"at": "%s"}\xff\x00' % position.encode()
    return RetryMessage(cursor=cursor, position=position, raw=raw, key=key)


def fail(ow: Onceward, position: str = "7") -> Later | Dead:
    with ow.transaction() as tx:
        return ow.retries.attempts.fail(tx, message(position), BROKEN)


def found(ow: Onceward, position: str = "7") -> Attempt:
    attempt = ow.retries.attempts.find("leads", position)
    assert attempt is not None
    return attempt


def test_waits_of_1_2_5_15_and_60_minutes_exactly_then_a_dead_letter(
    ow: Onceward, standing: StandingTime
) -> None:
    """At each limit it is not due yet, a moment later it is; the sixth failure is the last."""
    for number, minutes in enumerate(MINUTES, start=1):
        assert fail(ow) == Later(attempt=number, seconds=minutes * 60)
        standing.advance(seconds=minutes * 60)
        assert not found(ow).is_due
        assert found(ow).wait_seconds == pytest.approx(0, abs=1e-6)
        standing.advance(seconds=0.001)
        assert found(ow).is_due
        assert found(ow).attempt == number
    dead = fail(ow)
    assert isinstance(dead, Dead)
    assert ow.retries.attempts.find("leads", "7") is None
    letter = ow.dead.show(dead.letter)
    assert (letter.attempts, letter.raw) == (6, message().raw)
    assert [each.attempt for each in letter.failures] == [1, 2, 3, 4, 5, 6]
    waits = [
        (after.at - before.at).total_seconds()
        for before, after in zip(letter.failures, letter.failures[1:], strict=False)
    ]
    assert waits == [minutes * 60 + 0.001 for minutes in MINUTES]
    assert letter.first_failed_at == letter.failures[0].at
    assert letter.dead_at == letter.failures[-1].at


def test_h22_a_new_message_does_not_reset_the_schedule_of_a_failing_one(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """Each position has attempts and a time of its own, whatever happens elsewhere."""
    fail(ow, "7")
    ow_time.advance(seconds=61)
    assert fail(ow, "7") == Later(attempt=2, seconds=120)
    due_at = found(ow, "7").due_at
    assert fail(ow, "8") == Later(attempt=1, seconds=60)
    with ow.transaction() as tx:
        ow.retries.attempts.succeed(tx, "leads", "9")
    assert (found(ow, "7").attempt, found(ow, "7").due_at) == (2, due_at)
    ow_time.advance(seconds=61)
    assert not found(ow, "7").is_due
    assert found(ow, "8").is_due


def test_h22_a_restart_storm_keeps_its_backoff(ow: Onceward, ow_url: str) -> None:
    """Workers that restart and fail at once neither hurry nor delay the next attempt."""
    fail(ow)
    before = found(ow)
    clock = ow.store.clock if isinstance(ow.store, SqliteStore) else None
    for _ in range(8):
        with open_handle(ow_url, clock=clock) as restarted:
            seen = found(restarted)
            assert not seen.is_due
            again = fail(restarted)
            assert isinstance(again, Later)
            assert (again.attempt, again.seconds <= 60) == (1, True)
    after = found(ow)
    assert (after.attempt, after.due_at) == (before.attempt, before.due_at)


def test_success_forgets_the_attempts(ow: Onceward) -> None:
    """A message that is done has no past; failing again later starts a new one."""
    fail(ow)
    with ow.transaction() as tx:
        ow.retries.attempts.succeed(tx, "leads", "7")
    assert ow.retries.attempts.find("leads", "7") is None
    assert fail(ow) == Later(attempt=1, seconds=60)


def test_a_failure_is_undone_with_the_callers_transaction(ow: Onceward) -> None:
    """An attempt whose lease is lost in the same transaction is not counted."""
    with pytest.raises(ZeroDivisionError), ow.transaction() as tx:
        ow.retries.attempts.fail(tx, message(), BROKEN)
        raise ZeroDivisionError
    assert ow.retries.attempts.find("leads", "7") is None


def test_h21_a_poison_message_holds_its_cursor_no_longer_than_its_last_retry(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """After 83 minutes it is a dead letter with its raw bytes, and the cursor goes on."""
    answers: list[Later | Dead] = []
    while not answers or isinstance(answers[-1], Later):
        answers.append(fail(ow))
        if isinstance(answers[-1], Later):
            ow_time.advance(seconds=answers[-1].seconds + 1)
    assert len(answers) == 6
    (letter,) = ow.dead.list(cursor="leads")
    assert ow.dead.show(letter.id).raw == message().raw
    assert ow.dead.count() == {"leads": 1}


def test_only_the_latest_attempts_are_kept(ow: Onceward, ow_time: MovingTime) -> None:
    """A schedule without an end does not make the row grow without one."""
    endless = ExponentialBackoff(base_seconds=1, cap_seconds=1, jitter=False)
    for _ in range(25):
        with ow.transaction() as tx:
            ow.retries.attempts.fail(tx, message(), BROKEN, schedule=endless)
        ow_time.advance(seconds=2)
    assert found(ow).attempt == 25
    assert [each.attempt for each in found(ow).failures] == list(range(6, 26))


def test_other_schedules(ow: Onceward, ow_time: MovingTime) -> None:
    """The schedule is the caller's to choose; one without steps gives up at once."""
    for number, seconds in enumerate(DISPATCH.seconds, start=1):
        with ow.transaction() as tx:
            answer = ow.retries.attempts.fail(tx, message(), BROKEN, schedule=DISPATCH)
        assert answer == Later(attempt=number, seconds=seconds)
        ow_time.advance(seconds=seconds + 1)
    with ow.transaction() as tx:
        assert isinstance(ow.retries.attempts.fail(tx, message(), BROKEN, schedule=DISPATCH), Dead)
        never = ow.retries.attempts.fail(tx, message("8"), BROKEN, schedule=FixedDelays(seconds=()))
    assert isinstance(never, Dead)


class RebootingClock(ManualClock):
    """A clock whose boot time starts at zero again, as a real one does."""

    booted = 0.0

    def reboot(self) -> None:
        super().reboot()
        self.booted = self.monotonic()

    def boot_seconds(self) -> float:
        return self.monotonic() - self.booted


def test_a_due_time_survives_a_reboot(tmp_path: object) -> None:
    """On SQLite boot time decides; after a reboot of the machine, wall time does."""
    clock = RebootingClock(datetime(2026, 3, 1, tzinfo=UTC))
    clock.advance(seconds=1000)
    with open_handle(f"sqlite:///{tmp_path}/reboot.db", clock=clock) as ow:
        fail(ow)
        with ow.transaction() as tx:
            ow.retries.parked.park(tx, message("8", key="k"), failure=BROKEN)
        clock.advance(seconds=30)
        clock.reboot()
        assert found(ow).wait_seconds == pytest.approx(30, abs=0.01)
        assert ow.retries.parked.due_heads("leads") == []
        clock.advance(seconds=31)
        assert found(ow).is_due
        assert [each.message.position for each in ow.retries.parked.due_heads("leads")] == ["8"]


@pytest.mark.parametrize("bad", ["", "a\x00b", "\ud800"])
def test_names_that_no_database_stores_are_refused(bad: str) -> None:
    """The same names are taken on both engines."""
    with pytest.raises(InvalidArgument, match="position"):
        message().__class__(cursor="leads", position=bad, raw=b"")
    with pytest.raises(InvalidArgument, match="key"):
        message(key=bad)


def test_an_error_with_anything_in_it_is_kept(ow: Onceward) -> None:
    """NULs, surrogates and megabytes in an error do not keep the letter from being written."""
    nasty = Failure.of(ValueError("\x00\ud800" + "x" * 1_000_000))
    with ow.transaction() as tx:
        letter = ow.dead.add(tx, message(), nasty)
    shown = ow.dead.show(letter)
    assert shown.error_message.startswith("\\x00\\ud800xxx")
    assert len(shown.error_message) == 2000
    assert len(shown.error_trace) <= 8192
    assert shown.error_trace.startswith("ValueError")
