"""Idempotence: once and often must leave the same, and what differs is shown."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onceward.testing import Idempotence, Trial, assert_idempotent
from tests.support.waiting import until

STATE = "select * from charges"


def table(trial: Trial) -> None:
    with trial.open() as ow, ow.transaction() as tx:
        tx.execute("create table charges (order_id bigint, cents bigint)")


def insert(tx: Any) -> None:
    tx.execute("insert into charges values (7, 1999)")


def charge(trial: Trial) -> None:
    """Charge once under a key."""
    with trial.open() as ow:
        run: Any = ow.once(scope="charge", key="7", wait=10)(insert)
        run()


def charge_always(trial: Trial) -> None:
    """Charge whenever it is called."""
    with trial.open() as ow, ow.transaction() as tx:
        tx.execute("insert into charges values (7, 1999)")


def failure(work: Callable[..., Any], state: Any, **options: Any) -> str:
    """Return what is said when it fails."""
    with pytest.raises(AssertionError) as caught:
        assert_idempotent(work, state, setup=table, **options)
    return str(caught.value)


def test_work_with_a_key_is_idempotent(assert_idempotent: Callable[..., Idempotence]) -> None:
    """Again, later, at once, and after a crash at every place, on each engine."""
    found = assert_idempotent(charge, STATE, setup=table)
    assert found.calls == 1 + 3 + 5
    assert found.kills >= 5
    assert found.seconds > 0


def test_the_difference_is_shown() -> None:
    """The row that is there twice is marked, and one line repeats the test."""
    said = failure(charge_always, STATE)
    assert said.startswith("after a second call, the state is not that of one call")
    assert "    (7, 1999)\n  + (7, 1999)\nREPRO: pytest " in said
    assert said.count("REPRO") == 1


def test_calls_at_once_are_checked_apart_from_calls_in_turn() -> None:
    """A function that checks before it acts is fine alone, and not among concurrent calls."""

    def look_then_leap(trial: Trial) -> None:
        bank, looked = trial.path / "bank", trial.path / "looked"
        looked.mkdir(exist_ok=True)
        if not bank.exists():
            (looked / str(os.getpid())).touch()
            # All of those who call at once look before the first one leaps.
            until(lambda: not are_at_once(trial) or len(list(looked.iterdir())) == 3)
            with bank.open("a") as file:
                file.write("7\n")

    said = failure(look_then_leap, bank, at_once=3)
    assert said.startswith("after 3 concurrent calls, the state is not that of one call")


def are_at_once(trial: Trial) -> bool:
    """Return whether several processes work on this, which begin when all of them are here."""
    return (trial.path.parent / "gathered").exists()


def bank(trial: Trial) -> Any:
    """Return what was charged elsewhere."""
    file: Path = trial.path / "bank"
    return file.read_text().split() if file.exists() else []


def test_a_crash_between_effect_and_record_is_found() -> None:
    """Any number of calls is fine, until one of them dies in the middle."""

    def pay_then_record(trial: Trial) -> None:
        with trial.open() as ow, ow.transaction() as tx:
            if tx.execute("select 1 from charges"):
                return
            with (trial.path / "bank").open("a") as file:
                file.write("7\n")
            tx.execute("insert into charges values (7, 1999)")

    said = failure(pay_then_record, bank, at_once=1)
    assert said.startswith("after kill -9 at sql@")
    assert "not yet  your statement: insert into charges" in said
    assert "  + '7'" in said
    assert (
        assert_idempotent(pay_then_record, bank, setup=table, at_once=1, crashes=False).kills == 0
    )


def test_a_call_that_changes_nothing_proves_nothing() -> None:
    """A state that does not show the effect would let everything pass."""
    said = failure(charge, "select count(*) from charges where cents < 0")
    assert said.startswith("the call does not change `state`")
    assert "  (0,)\nfix: " in said


def test_a_second_call_that_fails_is_a_failure() -> None:
    """The same state and an error is not what a caller who tries again wants."""

    def strict(trial: Trial) -> None:
        (trial.path / "made").mkdir()

    def state(trial: Trial) -> Any:
        return {"made": (trial.path / "made").exists()}

    said = failure(strict, state)
    assert said.startswith("a second call failed: FileExistsError")
    assert assert_idempotent(strict, state, accept=FileExistsError, crashes=False).calls == 9
