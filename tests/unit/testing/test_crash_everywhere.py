"""Crash everywhere: it kills for real, at every place, and says what a reader needs to know."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import onceward
from onceward.errors import KeyAmbiguous, Retryable
from onceward.testing import CrashSummary, Trial, crash_everywhere
from onceward.testing.crash_everywhere import ONLY_VARIABLE

HERE = Path(__file__).name


def table(trial: Trial) -> None:
    with trial.open() as ow, ow.transaction() as tx:
        tx.execute("create table charges (order_id bigint)")


def charge(order: int, tx: Any) -> None:
    tx.execute("insert into charges values (?)", [order])


def charge_once(trial: Trial) -> None:
    """Charge in the transaction of the outcome."""
    with trial.open() as ow:
        charge_it: Any = ow.once(scope="charge", key="7")(charge)
        charge_it(7)


def charge_elsewhere(trial: Trial) -> None:
    """Charge where no transaction reaches, then write it down."""
    with (trial.path / "bank").open("a") as bank:
        bank.write("7\n")
    with trial.open() as ow, ow.transaction() as tx:
        if not tx.execute("select 1 from charges"):
            tx.execute("insert into charges values (7)")


def charged(trial: Trial) -> None:
    assert trial.rows("select * from charges") == [(7,)]


def charged_elsewhere(trial: Trial) -> None:
    charged(trial)
    assert (trial.path / "bank").read_text() == "7\n"


def failure(scenario: Callable[..., Any], check: Callable[..., Any], **options: Any) -> str:
    """Return what is said when it fails."""
    with pytest.raises(AssertionError) as caught:
        crash_everywhere(scenario, check, setup=table, **options)
    return str(caught.value)


def test_a_sound_scenario_is_killed_everywhere_and_passes(
    crash_everywhere: Callable[..., CrashSummary],
) -> None:
    """On each engine, at the same places, the user's own statement among them."""
    found = crash_everywhere(charge_once, charged, setup=table)
    statement = [name for name in found.points if name.startswith("sql@")]
    assert len(statement) == 1
    assert HERE in statement[0]
    assert {"transaction.before_commit", "transaction.after_commit"} < set(found.points)
    assert found.kills == len(found.points) >= 5
    assert found.missed == ()
    assert found.seconds > 0


def test_a_failure_names_the_place_its_states_the_difference_and_the_way_back() -> None:
    """One message has all of it, and one line to repeat it with."""
    said = failure(charge_elsewhere, charged_elsewhere)
    assert re.match(rf"after kill -9 at sql@\S*{HERE}:\d+\n  done     everything before ", said)
    assert "  not yet  your statement: select 1 from charges\n" in said
    assert "AssertionError" in said
    assert re.search(rf"at \S*{HERE}:\d+: assert \(trial\.path / \"bank\"\)", said)
    (repro,) = re.findall(r"^REPRO: .*$", said, re.MULTILINE)
    assert repro.startswith(f"REPRO: {ONLY_VARIABLE}=")
    assert "test_crash_everywhere.py::test_a_failure_names_the_place" in repro


def test_the_line_to_repeat_it_kills_there_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and says so when the place is not passed."""
    monkeypatch.setenv(ONLY_VARIABLE, "transaction.after_commit:1")
    assert crash_everywhere(charge_once, charged, setup=table).kills == 1
    monkeypatch.setenv(ONLY_VARIABLE, "transaction.after_commit:9")
    assert "'transaction.after_commit' is passed 1 times" in failure(charge_once, charged)
    monkeypatch.setenv(ONLY_VARIABLE, "nowhere:1")
    assert "'nowhere:1' is no place" in failure(charge_once, charged)


def test_it_is_sigkill_and_another_process(tmp_path: Path) -> None:
    """Nothing of the killed process runs on, no `finally` either; the next one is another."""
    log = tmp_path / "log"

    def write(word: str) -> None:
        with log.open("a") as file:
            file.write(f"{word} {os.getpid()}\n")

    def scenario(trial: Trial) -> None:
        try:
            charge_once(trial)
        finally:
            write("end")

    found = crash_everywhere(scenario, lambda: write("check"), setup=table)
    lines = [line.split() for line in log.read_text().splitlines()]
    assert [word for word, _ in lines] == ["end", "check"] * (found.kills + 1)
    assert len({pid for _, pid in lines} | {str(os.getpid())}) == len(lines) + 1


def test_lines_of_a_function_are_places_too() -> None:
    """What lies between two lines is found where no statement and no crash point is."""

    def forgetful(trial: Trial) -> None:
        paid = trial.path / "paid"
        if not paid.exists():
            paid.touch()
            (trial.path / "bank").write_text("7\n")
        trial.open().close()

    def check(trial: Trial) -> None:
        assert (trial.path / "bank").exists()

    assert "nothing can be killed" in failure(forgetful, check)
    said = failure(forgetful, check, lines=[forgetful])
    assert 'not yet  your line: (trial.path / "bank").write_text("7\\n")' in said


def test_places_are_killed_at_in_several_passes_but_not_without_end() -> None:
    """The limit holds for each place."""

    def often(trial: Trial) -> None:
        with trial.open() as ow, ow.transaction() as tx:
            tx.execute("delete from charges")
            for _ in range(50):
                tx.execute("insert into charges values (7)")

    def check(trial: Trial) -> None:
        assert trial.rows("select count(*) from charges") == [(50,)]

    found = crash_everywhere(often, check, setup=table, passes_max=2)
    assert found.kills == 1 + 2 + 2


def test_a_scenario_that_is_to_be_tried_again_is() -> None:
    """An hour later each time, until it is done."""

    def late(trial: Trial) -> None:
        runs = trial.path / "runs"
        with runs.open("a") as file:
            file.write(".")
        if 1 < len(runs.read_text()) < 4:
            raise Retryable
        charge_once(trial)

    def check(trial: Trial) -> None:
        charged(trial)
        assert len((trial.path / "runs").read_text()) in (1, 4)

    assert crash_everywhere(late, check, setup=table).kills >= 5


def test_what_stays_ambiguous_fails_unless_it_is_accepted() -> None:
    """A person would have to decide; a test may say that this is fine."""

    def pay(trial: Trial) -> None:
        with trial.open() as ow:
            ow.once(scope="pay", key="7")((trial.path / "bank").touch)()

    def check(trial: Trial) -> None:
        assert trial.path.exists()

    said = failure(pay, check)
    assert "the scenario, run again, failed:\n" in said
    assert "KeyAmbiguous" in said
    assert crash_everywhere(pay, check, accept=KeyAmbiguous).kills >= 5


MISUSES: list[tuple[Callable[..., Any], Callable[..., Any], str]] = [
    (lambda: None, lambda: None, "nothing can be killed: the scenario passed no crash point"),
    (charge_once, lambda: 1 / 0, "the check fails although nothing was killed: ZeroDivisionError"),
    (
        lambda: os._exit(3),
        charged,
        "the scenario fails although nothing was killed: ended with code 3",
    ),
    (lambda: 1 / 0, charged, "the scenario fails although nothing was killed: ZeroDivisionError"),
]


@pytest.mark.parametrize(("scenario", "check", "message"), MISUSES)
def test_a_test_that_proves_nothing_fails(
    scenario: Callable[..., Any], check: Callable[..., Any], message: str
) -> None:
    """It says what is wrong with it, before it kills anything."""
    assert failure(scenario, check).startswith(message)


def test_a_store_that_is_not_the_trials_is_noticed(tmp_path: Path) -> None:
    """Its work is done when it was watched, so that nothing is passed afterwards."""
    with onceward.open(f"sqlite:///{tmp_path / 'own.db'}") as ow:
        once = ow.once(scope="charge", key="7")(lambda: None)
        said = failure(once, lambda: None)
    assert "but in no later run\nfix: use the store of the trial" in said


def test_a_setup_that_fails_says_so() -> None:
    """With the line of the user's."""
    with pytest.raises(AssertionError, match=r"^setup failed: ZeroDivisionError") as caught:
        crash_everywhere(charge_once, charged, setup=lambda: 1 / 0)
    assert HERE in str(caught.value)


def test_a_scenario_that_hangs_is_ended_and_its_threads_are_shown() -> None:
    """The test does not wait for ever, and its report shows what it waited for."""

    def hang(trial: Trial) -> None:
        if (trial.path / "was here").exists():
            os.read(os.pipe()[0], 1)
        (trial.path / "was here").touch()
        charge_once(trial)

    said = failure(hang, charged, seconds_max=5.0)
    assert "the process did not end within 5 s; threads are at\n" in said
    assert re.search(rf'File "[^"]*{HERE}", line \d+ in hang', said)
    assert "_pytest" not in said


def test_what_a_failing_run_printed_is_shown() -> None:
    """Only that of the run that failed."""

    def loud(trial: Trial) -> None:
        print("run")  # noqa: T201 - what is tested
        if (trial.path / "was here").exists():
            print("again")  # noqa: T201 - what is tested
            raise ValueError
        (trial.path / "was here").touch()
        charge_once(trial)

    said = failure(loud, charged)
    assert "output:\n    run\n    again\n" in said
