"""`onceward dead`, on both engines."""

import base64

import pytest

from onceward.client import Onceward
from onceward.retries import Failure, RetryMessage
from tests.support.command_runner import Run

RAW = b'{"name": "\xff\x1b[31m"}\n'


def make_dead_letter(ow: Onceward, position: str, key: str = "k") -> int:
    failure = Failure(type="ValueError", message="bad \x1b[31m [bold]name[/bold] " + "x" * 300)
    with ow.transaction() as tx:
        made = RetryMessage(cursor="leads", position=position, raw=RAW, key=key)
        return ow.dead.add(tx, made, failure, order="key")


def test_list_fits_the_terminal(
    run: Run, ow: Onceward, ow_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line a letter, cut to the width, and nothing in it steers the terminal."""
    assert run("dead", "list", "--store", ow_url).out == "no dead letters\n"
    letter = make_dead_letter(ow, "1")
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
    first, second = make_dead_letter(ow, "1", "a"), make_dead_letter(ow, "2", "b")
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
    letter = str(make_dead_letter(ow, "1"))
    text = run("dead", "show", letter, "--store", ow_url).out
    assert "\x1b" not in text
    assert f"message, {len(RAW)} of {len(RAW)} bytes:" in text
    shown = run("dead", "show", letter, "--store", ow_url, "--json").json
    assert base64.b64decode(shown["raw_base64"]) == RAW
    assert (shown["state"], shown["attempts"], len(shown["failures"])) == ("dead", 1, 1)
    missing = run("dead", "show", "999", "--store", ow_url)
    assert (missing.code, missing.err.splitlines()[0]) == (1, "error: there is no dead letter 999")


def test_redrive_by_number_twice(run: Run, ow: Onceward, ow_url: str) -> None:
    """The second operator gets an error; the message is parked once."""
    letter = make_dead_letter(ow, "1")
    words = ("dead", "redrive", str(letter), "--actor", "ann", "--store", ow_url)
    planned = run(*words)
    assert planned.code == 0
    assert planned.out == (
        f"would redrive 1 dead letter: {letter}\n"
        "  leads: 1 message\n"
        "nothing was changed; pass --yes to apply\n"
    )
    assert ow.dead.show(letter).state == "dead"
    assert run(*words, "--yes").out == f"redriven {letter}\n"
    second = run("dead", "redrive", str(letter), "--actor", "bob", "--yes", "--store", ow_url)
    assert second.code == 1
    first_line = second.err.splitlines()[0]
    assert first_line.startswith(f"error: dead letter {letter} was redriven by ann at ")
    assert first_line.endswith("; nothing was changed")
    plan = {"action": "redrive", "applied": False, "ids": [], "messages": 0, "skipped": [letter]}
    assert run(*words, "--json").json == plan
    assert ow.dead.show(letter).changed_by == "ann"
    assert ow.retries.parked.waiting("leads").messages == 1


def test_redrive_by_filter_wants_a_yes(run: Run, ow: Onceward, ow_url: str) -> None:
    """Repeating an unknown amount of work is not done by accident."""
    letters = [make_dead_letter(ow, str(number), key="k") for number in range(3)]
    words = ("dead", "redrive", "--cursor", "leads", "--limit", "2", "--store", ow_url)
    assert run(*words, "--json").json["ids"] == letters[:2]
    assert len(ow.dead.list()) == 3
    assert run(*words, "--yes").out == f"redriven {letters[0]}, {letters[1]}\n"
    assert [each.id for each in ow.dead.list()] == [letters[2]]
    left = ("dead", "redrive", str(letters[0]), str(letters[2]), "--yes", "--store", ow_url)
    assert run(*left).out.startswith(
        f"redriven {letters[2]}; not changed: dead letter {letters[0]}"
    )


def test_drop_by_error(run: Run, ow: Onceward, ow_url: str) -> None:
    """A part of the error in any case chooses the letters."""
    letter = make_dead_letter(ow, "1")
    words = ("dead", "drop", "--reason", "spam", "--yes", "--json", "--store", ow_url)
    none = run(*words, "--error", "no such text").json
    assert none == {"applied": True, "dropped": [], "skipped": []}
    assert run(*words, "--error", "valueerror: BAD").json["dropped"] == [letter]
    assert run(*words, "--error", "ValueError", "--source", "chat").json["dropped"] == []


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ([], "no number or filter was passed"),
        (["1", "--cursor", "leads"], "both numbers and a filter were passed"),
    ],
)
def test_redrive_says_which(run: Run, ow_url: str, words: list[str], what: str) -> None:
    """Numbers or a filter: neither would be everything, both would be unclear."""
    ran = run("dead", "redrive", *words, "--store", ow_url)
    error = f"error: ids: {what}; nothing was changed"
    assert (ran.code, ran.err.splitlines()[0]) == (2, error)


def test_drop_wants_a_reason_and_a_yes(run: Run, ow: Onceward, ow_url: str) -> None:
    """Without --yes it prints the plan; the reason is recorded."""
    letter = make_dead_letter(ow, "1")
    words = ("dead", "drop", str(letter), "--store", ow_url)
    assert run(*words).code == 2
    assert run(*words, "--reason", " ", "--yes").code == 2
    assert run(*words, "--reason", "spam").code == 0
    assert ow.dead.show(letter).state == "dead"
    assert run(*words, "--reason", "spam", "--yes").out == f"dropped {letter}\n"
    again = run(*words, "--reason", "spam", "--yes", "--json")
    assert (again.code, "CONFLICT" in again.err) == (1, True)
    assert ow.dead.show(letter).reason == "spam"
