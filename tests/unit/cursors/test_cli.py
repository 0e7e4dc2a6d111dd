"""`onceward cursors`: what operators see and do."""

import json
import re
from pathlib import Path

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.retries import RetryMessage
from tests.support.command_runner import Run


@pytest.fixture
def ow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Onceward:
    """A store with one cursor at 1200, held by w1, which the commands find by the environment."""
    url = f"sqlite:///{tmp_path / 'work.db'}"
    monkeypatch.setenv("ONCEWARD_STORE", url)
    handle = open_handle(url)
    lease = handle.cursors.acquire("lead_intake_v1", "w1")
    assert lease is not None
    lease.checkpoint("1200")
    return handle


def test_cursors_are_listed(run: Run, ow: Onceward) -> None:
    """A table for people that fits the terminal, JSON for machines."""
    ow.cursors.acquire("niche_1", "x" * 150)
    shown = run("cursors", "list")
    assert shown.code == 0
    assert all(len(line) <= 80 for line in shown.out.splitlines())
    (row,) = (line for line in shown.out.splitlines() if "lead_intake_v1" in line)
    assert row.split() == ["lead_intake_v1", "1200", "held", "w1", "-", "-", "0", "0"]
    (cursor,) = run("cursors", "list", "lead*", "--json").json["cursors"]
    assert (cursor["name"], cursor["position"], cursor["epoch"]) == ("lead_intake_v1", "1200", 1)


def test_lag_and_rate_are_shown_as_they_were_measured(run: Run, ow: Onceward) -> None:
    """Messages and seconds, and messages a minute; nothing where they were not measured."""
    (cursor,) = run("cursors", "list", "--json").json["cursors"]
    assert cursor["measure"] is None
    row = {"cursor": "lead_intake_v1", "position": cursor["position"], "messages": 30}
    rows = json.dumps([{**row, "seconds": 500, "processed": 1, "rate": 12.0}])
    ow.store.run_in_own_transaction(lambda tx: tx.query("measure_write", rows=rows))
    (shown,) = (line for line in run("cursors", "list").out.splitlines() if "lead_intake" in line)
    assert re.fullmatch(r"30/50\ds", shown.split()[4])
    assert shown.split()[5] == "12"
    measure = run("cursors", "show", "lead_intake_v1", "--json").json["measure"]
    assert (measure["lag_messages"], measure["rate_per_minute"]) == (30, 12.0)
    assert measure["drain_seconds"] == 150
    assert "lag_messages       30" in run("cursors", "show", "lead_intake_v1").out


def test_our_own_cursors_are_listed_when_asked_for(run: Run, ow: Onceward) -> None:
    """Slots and the like are not listed unless a pattern asks for them."""
    ow.cursors.acquire("~alerts", "w")
    listed = run("cursors", "list", "--json").json["cursors"]
    assert [each["name"] for each in listed] == ["lead_intake_v1"]
    (own,) = run("cursors", "list", "~*", "--json").json["cursors"]
    assert own["name"] == "~alerts"


def test_another_store_can_be_named(run: Run, ow: Onceward, tmp_path: Path) -> None:
    """`--store` counts more than the environment."""
    assert ow.cursors.list()
    other = f"sqlite:///{tmp_path / 'other.db'}"
    assert run("cursors", "list", "--store", other, "--json").json == {"cursors": []}


def test_a_cursor_is_paused_and_resumed(run: Run, ow: Onceward) -> None:
    """What is shown afterwards is how it is now."""
    ran = run("cursors", "pause", "lead_intake_v1", "--reason", "lunch", "--actor", "ana", "--json")
    assert ran.json["is_paused"] is True
    assert "paused" in run("cursors", "show", "lead_intake_v1").out
    assert run("cursors", "resume", "lead_intake_v1", "--json").json["is_paused"] is False
    assert [entry.kind for entry in ow.cursors.history("lead_intake_v1")] == ["resume", "pause"]


def test_a_seek_changes_nothing_without_yes(run: Run, ow: Onceward) -> None:
    """Nothing is repeated or lost by a command that was only tried."""
    words = ("cursors", "seek", "lead_intake_v1", "10", "--reason", "bad deploy")
    tried = run(*words)
    assert tried.code == 0
    assert "would move" in tried.out
    assert "unknown" in tried.out
    assert "interrupts  w1" in tried.out
    assert "--yes" in tried.out
    assert ow.cursors.show("lead_intake_v1").position == "1200"
    done = run(*words, "--yes", "--json").json
    assert (done["applied"], done["to_position"], done["epoch"]) == (True, "10", 2)
    assert ow.cursors.show("lead_intake_v1").position == "10"


def test_a_seek_is_undone_in_the_same_way(run: Run, ow: Onceward) -> None:
    """First thought through, then done, then nothing is left to undo."""
    run("cursors", "seek", "lead_intake_v1", "--start", "--reason", "all again", "--yes")
    assert ow.cursors.show("lead_intake_v1").position is None
    assert run("cursors", "undo", "lead_intake_v1", "--json").json["applied"] is False
    assert "moved" in run("cursors", "undo", "lead_intake_v1", "--yes").out
    assert ow.cursors.show("lead_intake_v1").position == "1200"
    ran = run("cursors", "undo", "lead_intake_v1", "--yes")
    assert ran.code == 1
    assert "error: " in ran.err


def test_a_move_says_what_becomes_of_parked_messages(run: Run, ow: Onceward) -> None:
    """Only a source can tell which will be read again; at the start it is all of them."""
    with ow.transaction() as tx:
        ow.retries.parked.park(
            tx, RetryMessage(cursor="lead_intake_v1", position="7", raw=b"7", key="k")
        )
    seek = ("cursors", "seek", "lead_intake_v1", "--reason", "again")
    assert "discarded   unknown" in run(*seek, "10").out
    assert run(*seek, "10", "--json").json["discarded"] is None
    assert "discarded   1\nrestored    0\n" in run(*seek, "--start", "--yes").out
    assert ow.retries.parked.waiting("lead_intake_v1").messages == 0
    undone = run("cursors", "undo", "lead_intake_v1", "--yes", "--json").json
    assert (undone["discarded"], undone["restored"]) == (0, 1)
    assert ow.retries.parked.waiting("lead_intake_v1").messages == 1


def test_history_shows_actor_and_reason(run: Run, ow: Onceward) -> None:
    """Text of others cannot play tricks with the terminal."""
    ow.cursors.seek("lead_intake_v1", "[red]10[/red]", "evil \x1b[2J reason", "ana")
    ran = run("cursors", "history", "lead_intake_v1")
    assert "\x1b" not in ran.out
    assert "[red]10[/red]" in ran.out.replace("\n", "")
    (entry,) = run("cursors", "history", "lead_intake_v1", "--limit", "1", "--json").json["history"]
    assert (entry["actor"], entry["from_position"]) == ("ana", "1200")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", "nope"), 1),
        (("pause", "nope"), 1),
        (("history", "nope"), 1),
        (("seek", "lead_intake_v1", "--reason", "x"), 2),
        (("seek", "lead_intake_v1", "1", "--start", "--reason", "x"), 2),
        (("seek", "lead_intake_v1", "1"), 2),
        (("history", "lead_intake_v1", "--limit", "0"), 2),
    ],
)
def test_errors_suggest_a_fix(run: Run, ow: Onceward, words: tuple[str, ...], code: int) -> None:
    """Every refusal says what to do, and changes nothing."""
    ran = run("cursors", *words)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.splitlines()[1].startswith("fix: ")
    assert ow.cursors.history("lead_intake_v1") == ()
