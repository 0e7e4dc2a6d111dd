"""A run of the benchmarks: what it prints, writes, and exits with."""

import json
import sys
from collections.abc import Callable

import pytest

from bench import __main__ as program
from bench import costs, machine, pages
from bench.costs import LOADS, PROCESSES, Costs
from bench.load import Carried
from bench.operations import MADE_OF
from bench.table import Beside, Row, bound, limit
from bench.timing import Run, Spread
from bench.units import milli

FACTS = {
    "cores": "2, some processor",
    "memory": "8 GiB",
    "kernel": "Linux 6.1",
    "Python": "3.11.7",
    "SQLite": "3.54",
    "PostgreSQL": "18, on the same machine",
    "disk": "a sync of 4 kB takes 90 µs",
}
MET = Row(
    work="quick work",
    ours=(0.01, 0.01, 0.01),
    shown=milli,
    besides=(limit("a loop", (0.009, 0.009, 0.009), 0.8),),
    is_headline=True,
)
MISSED = Row(
    work="slow work",
    ours=(0.01, 0.01, 0.01),
    shown=milli,
    besides=(bound(0.005, why="Five syncs take that long."),),
)
ABSENT = Row(
    work="lonely work",
    ours=(0.01, 0.01, 0.01),
    shown=milli,
    besides=(Beside(kind="peer", goal=2, missing="Other cannot be installed"),),
)


def some_costs() -> Costs:
    cost = Spread(0.0005, 0.0004, 0.0006)
    operations = {engine: dict.fromkeys(MADE_OF, cost) for engine in ("SQLite", "PostgreSQL")}
    carried = Carried(messages_per_second=1_000, worker_cores=0.9, server_cores=0.6)
    return Costs(operations, {load: [carried for _ in PROCESSES] for load in LOADS})


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run the program with these rows as its only benchmark."""
    monkeypatch.setattr(machine, "facts", lambda: FACTS)

    def run(*words: str, rows: Callable[[Run], list[Row]]) -> int:
        monkeypatch.setattr(program, "BENCHMARKS", {"only": ("Part", rows)})
        monkeypatch.setattr(sys, "argv", ["bench", *words])
        return program.main()

    return run


def test_a_missed_goal_is_no_failure(
    ran: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything ran, so the exit code is 0; the loss is printed with its reason."""
    assert ran("only", rows=lambda _: [MET, MISSED]) == 0
    printed = capsys.readouterr().out
    assert "2 goals, 1 met, 1 missed" in printed
    assert "missed: slow work: 10.00 ms, where ≤ 5.00 ms was the goal. Five syncs" in printed


def test_the_exit_code_says_that_a_peer_was_missing(
    ran: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    """The row says who, and nothing pretends that everything was compared."""
    assert ran("only", rows=lambda _: [MET, ABSENT]) == 1
    assert "Other cannot be installed" in capsys.readouterr().out


def test_a_part_that_fails_is_reported_and_others_are_shown(
    ran: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1, and the error is printed."""

    def broken(_: Run) -> list[Row]:
        raise ValueError

    assert ran("only", rows=broken) == 1
    assert "error: failed: only" in capsys.readouterr().err


def test_an_unknown_name_is_refused_with_those_there_are(
    ran: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, and the names to choose from."""
    with pytest.raises(SystemExit) as exited:
        ran("nothing", rows=lambda _: [])
    assert exited.value.code == 2
    assert "fix: choose from only, costs" in capsys.readouterr().err


def test_json_is_one_object(ran: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    """Machines get the samples themselves, and everything on stdout is theirs."""
    assert ran("--json", "only", rows=lambda _: [MET]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["machine"] == FACTS
    assert found["rows"][0]["seconds"] == [0.01, 0.01, 0.01]
    assert found["rows"][0]["beside"][0]["is_met"] is True


@pytest.mark.parametrize("words", [("only",), ("--quick",)])
def test_only_a_whole_run_writes_pages(
    ran: Callable[..., int], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """A part, or a quick run, prints and leaves the pages alone."""
    monkeypatch.setattr(costs, "measure", lambda _: some_costs())
    monkeypatch.setattr(pages, "write", lambda *_: pytest.fail("wrote"))
    assert ran(*words, rows=lambda _: [MET]) == 0


def test_a_whole_run_writes_pages_unless_something_was_missing(
    ran: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages are of runs in which everybody took part."""
    written: list[object] = []

    def write(*given: object) -> list[str]:
        written.append(given)
        return []

    monkeypatch.setattr(costs, "measure", lambda _: some_costs())
    monkeypatch.setattr(pages, "write", write)
    assert ran(rows=lambda _: [MET, ABSENT]) == 1
    assert written == []
    assert ran(rows=lambda _: [MET]) == 0
    assert len(written) == 1


def test_the_page_has_every_row_and_says_where_a_goal_was_missed() -> None:
    """Losses stand in the table and once more below it, with the reason."""
    page = pages.benchmarks(FACTS, {"Part": [MET, MISSED]})
    assert "| **Part** |" in page
    assert "| quick work | 10.00 ms |" in page
    assert "- slow work: 10.00 ms, where ≤ 5.00 ms was the goal. Five syncs take that long." in page


def test_the_short_table_has_headlines_lost_or_not() -> None:
    """The README shows the rows that matter most, and counts those that were lost."""
    quiet = Row(work="quiet work", ours=MET.ours, shown=milli, besides=MET.besides)
    shown = pages.summary(FACTS, {"Part": [MET, MISSED, quiet]})
    assert "| quick work | 10.00 ms | 90% of a loop | ≥ 80% met |" in shown
    assert "quiet work" not in shown
    assert "1 missed" in shown


def test_one_region_of_a_page_is_generated_again_and_the_rest_stays() -> None:
    """What people wrote around it is theirs, and so are other regions."""
    page = "a\n<!-- made: x -->\n1\n<!-- end -->\nb\n<!-- made: y -->\n2\n<!-- end -->\nc\n"
    made = pages.put(page, "y", "3")
    assert made == page.replace("\n2\n", "\n\n3\n\n")


def test_costs_are_a_table_by_engine() -> None:
    """Every operation has both engines beside each other, and what it is made of."""
    text = some_costs().markdown("a machine")
    for name, made_of in MADE_OF.items():
        assert f"| {name} | 500 µs (400 µs to 600 µs) | 500 µs" in text
        assert f"| {made_of} |" in text
    assert "1,000 (0.9 + 0.6)" in text
    assert json.dumps(some_costs().record())


def test_the_machine_is_described_without_its_name() -> None:
    """Facts that matter for the numbers, with a sync measured; no host, no user, no path."""
    found = machine.facts()
    assert {*FACTS, "Onceward", "date"} == set(found)
    assert "µs" in found["disk"]
    assert "/" not in " ".join(found.values())
