"""`onceward dead`, on both engines."""

import base64

import pytest

from onceward.cli import dead
from onceward.handle import Onceward
from onceward.retries import Failure, Message
from tests.unit.cli.conftest import Run

RAW = b'{"name": "\xff\x1b[31m"}\n'


def bury(ow: Onceward, position: str, key: str = "k") -> int:
    failure = Failure(type="ValueError", message="bad \x1b[31m [bold]name[/bold] " + "x" * 300)
    with ow.transaction() as tx:
        made = Message(cursor="leads", position=position, raw=RAW, key=key)
        return ow.dead.add(tx, made, failure, order="key")


def test_list_fits_the_terminal(
    run: Run, ow: Onceward, ow_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line a letter, cut to the width, and nothing in it steers the terminal."""
    assert run("dead", "list", "--store", ow_url).out == "no dead letters\n"
    letter = bury(ow, "1")
    for columns in ("60", "120"):
        monkeypatch.setenv("COLUMNS", columns)
        lines = run("dead", "list", "--store", ow_url).out.splitlines()
        assert len(lines) == 2
        assert all(len(line) <= int(columns) for line in lines)
        assert "\x1b" not in "".join(lines)
        assert lines[1].split()[0] == str(letter)
    assert "bad" in lines[1]
    assert "[bold]" in lines[1]


def test_list_as_json_with_filters(
    run: Run, ow: Onceward, ow_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store may come from the environment; filters narrow, states widen."""
    monkeypatch.setenv("ONCEWARD_STORE", ow_url)
    first, second = bury(ow, "1", "a"), bury(ow, "2", "b")
    ow.dead.drop(first, reason="a test", actor="me")

    def ids(*words: str) -> list[int]:
        return [item["id"] for item in run("dead", "list", "--json", *words).json["items"]]

    assert ids() == [second]
    assert ids("--state", "all") == [second, first]
    assert ids("--state", "dropped", "--key", "a", "--cursor", "leads") == [first]
    assert ids("--since", "2000-01-01") == [second]
    assert ids("--since", "2100-01-01T00:00:00Z") == []
    for wrong in ("yesterday", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"):
        ran = run("dead", "list", "--since", wrong)
        assert (ran.code, "since: " in ran.err) == (2, True)


def test_show(run: Run, ow: Onceward, ow_url: str) -> None:
    """People see everything but control characters, machines get all the bytes."""
    letter = str(bury(ow, "1"))
    text = run("dead", "show", letter, "--store", ow_url).out
    assert "\x1b" not in text
    assert f"message, {len(RAW)} of {len(RAW)} bytes:" in text
    shown = run("dead", "show", letter, "--store", ow_url, "--json").json
    assert base64.b64decode(shown["raw_base64"]) == RAW
    assert (shown["state"], shown["attempts"], len(shown["failures"])) == ("dead", 1, 1)
    missing = run("dead", "show", "999", "--store", ow_url)
    assert (missing.code, missing.err.splitlines()[0]) == (1, "error: there is no dead letter 999")


def test_redrive_by_number_twice(run: Run, ow: Onceward, ow_url: str) -> None:
    """The second time it is left alone; the message is parked once, by whoever said so."""
    letter = bury(ow, "1")
    words = ("dead", "redrive", str(letter), "--actor", "ann", "--store", ow_url)
    assert run(*words, "--dry-run").out == f"would redrive {letter}\n"
    assert ow.dead.show(letter).state == "dead"
    assert run(*words).out == f"redriven {letter}\n"
    assert run(*words, "--json").json == {"redriven": [], "skipped": [letter]}
    assert run(*words, "--dry-run", "--json").json == {"wouldRedrive": []}
    assert ow.dead.show(letter).changed_by == "ann"
    assert ow.retries.parked.waiting("leads").messages == 1


def test_redrive_by_filter_wants_a_yes(run: Run, ow: Onceward, ow_url: str) -> None:
    """Repeating an unknown amount of work is not done by accident."""
    letters = [bury(ow, str(number), key="k") for number in range(3)]
    words = ("dead", "redrive", "--cursor", "leads", "--limit", "2", "--store", ow_url)
    assert run(*words, "--dry-run", "--json").json == {"wouldRedrive": letters[:2]}
    refused = run(*words)
    assert (refused.code, "--dry-run" in refused.err) == (2, True)
    assert len(ow.dead.list()) == 3
    assert run(*words, "--yes").out == f"redriven {letters[0]}, {letters[1]}\n"
    assert [each.id for each in ow.dead.list()] == [letters[2]]


@pytest.mark.parametrize("words", [[], ["1", "--cursor", "leads"]])
def test_redrive_says_which(run: Run, ow_url: str, words: list[str]) -> None:
    """Numbers or a filter: neither would be everything, both would be unclear."""
    ran = run("dead", "redrive", *words, "--store", ow_url)
    assert (ran.code, ran.err.splitlines()[0]) == (
        2,
        "error: ids: name letters, or a filter, and not both",
    )


def test_drop_wants_a_reason_and_a_yes(run: Run, ow: Onceward, ow_url: str) -> None:
    """Losing work is said twice, and why."""
    letter = bury(ow, "1")
    words = ("dead", "drop", str(letter), "--store", ow_url)
    assert run(*words).code == 2
    assert run(*words, "--reason", " ", "--yes").code == 2
    assert run(*words, "--reason", "spam").code == 2
    assert run(*words, "--reason", "spam", "--dry-run").out == f"would drop {letter}\n"
    assert ow.dead.show(letter).state == "dead"
    assert run(*words, "--reason", "spam", "--yes").out == f"dropped {letter}\n"
    assert run(*words, "--reason", "spam", "--yes", "--json").json == {"dropped": []}
    assert ow.dead.show(letter).reason == "spam"


def test_a_person_is_asked(
    run: Run, ow: Onceward, ow_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a terminal a question takes the place of --yes; no means no."""
    letter = bury(ow, "1")
    words = ("dead", "drop", str(letter), "--reason", "spam", "--store", ow_url)
    monkeypatch.setattr(dead, "_can_ask", lambda: True)
    assert run(*words, stdin=b"n\n").code == 130
    assert ow.dead.show(letter).state == "dead"
    assert run(*words, stdin=b"y\n").code == 0
    assert ow.dead.show(letter).state == "dropped"
