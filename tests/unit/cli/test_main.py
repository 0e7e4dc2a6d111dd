"""The command line as a whole: help, version, errors and exit codes."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from onceward.cli import keys
from onceward.cli.main import COMMANDS as LISTED
from onceward.cli.main import SECTIONS, app
from onceward.version import __version__
from tests.support.command_runner import Run


def commands(
    group: Any = None, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command, with the words that lead to it."""
    group = group or typer.main.get_command(app)
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "list_commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands())


def test_version(run: Run) -> None:
    """The version is one line."""
    ran = run("--version")
    assert (ran.code, ran.out) == (0, f"onceward {__version__}\n")


@pytest.mark.parametrize("words", [("keys",), ("journal",), ("dispatch", "groups")])
def test_a_group_alone_shows_its_help(run: Run, words: tuple[str, ...]) -> None:
    """A user who does not know what to type sees the commands."""
    ran = run(*words)
    assert ran.code == 0
    assert "Usage:" in ran.out
    assert "Commands" in ran.out


def test_the_first_page_lists_every_command_once(run: Run) -> None:
    """By system, in the order in which the shell completes them; alone or asked for, the same."""
    ran = run()
    assert (ran.code, ran.out) == (0, run("--help").out)
    shown = re.findall("^(.+):\n((?:  .+\n)+)", ran.out, flags=re.MULTILINE)
    pages = {title: re.findall(r"^  (\w+)", page, flags=re.MULTILINE) for title, page in shown}
    assert pages.pop("Options") == []
    assert {title: list(names) for title, names in SECTIONS.items()} == pages
    assert list(itertools.chain.from_iterable(pages.values())) == list(LISTED)
    assert all(summary in ran.out for _, summary in LISTED.values())


def test_every_command_has_help_with_an_example_and_takes_json(run: Run) -> None:
    """A command explains itself by example, shows flags as flags, and speaks JSON to machines."""
    for words, command in COMMANDS.items():
        ran = run(*words, "--help")
        assert ran.code == 0, words
        assert "Example: onceward" in " ".join(ran.out.split()), words
        assert "--json" in {each for param in command.params for each in param.opts}, words
        # A flag takes no value, and has a negative only where it means something.
        assert "<bool>" not in ran.out, words
        assert set(re.findall(r"--no-[a-z-]+", ran.out)) <= {"--no-open", "--no-delete"}, words


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("bogus",), "No such command 'bogus'"),
        (("keys", "bogus"), "No such command 'bogus'"),
        (("keys", "ik"), "Missing option"),
        (("keys", "canonical"), "Missing argument"),
        (("journal", "poll", "x", "--limit", "many"), "limit"),
        (("keys", "canonical", "1", "--bogus"), "No such option"),
    ],
)
def test_bad_usage_is_exit_2_with_a_fix(run: Run, words: tuple[str, ...], says: str) -> None:
    """Wrong words: what is wrong, and where to read how it is right."""
    ran = run(*words)
    assert ran.code == 2
    assert ran.out == ""
    error, fix = ran.err.splitlines()
    assert error.startswith("error: ")
    assert says in error
    assert fix.startswith("fix: see `onceward")


def test_errors_are_json_for_machines(run: Run) -> None:
    """With --json an error has the one shape that errors have everywhere."""
    ran = run("keys", "canonical", "{", "--json")
    assert ran.code == 2
    error = json.loads(ran.err)["error"]
    assert error["code"] == "INVALID_JSON"
    assert error["context"]["fix"]


def test_a_bug_is_reported_without_a_trace(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error inside Onceward says how to learn more, and is exit 1."""
    monkeypatch.delenv("ONCEWARD_DEBUG", raising=False)
    monkeypatch.setattr(keys, "json_argument", lambda *_: 1 / 0)
    ran = run("keys", "canonical", "1")
    assert ran.code == 1
    assert ran.err.startswith("error: ZeroDivisionError")
    assert "ONCEWARD_DEBUG=1" in ran.err


def test_control_c_is_quiet(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupting a command is not an error message."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(keys, "json_argument", interrupt)
    ran = run("keys", "canonical", "1")
    assert (ran.code, ran.err.strip()) == (130, "")


@pytest.mark.parametrize(
    "words",
    [
        ("keys", "ik", "--action", "a", "--task", "t", "--snapshot", "s", "--inputs", "{}"),
        ("keys", "ik", "--action", "a"),
        ("feedback", "list"),
    ],
)
def test_json_before_the_command_is_the_same_as_after_it(run: Run, words: tuple[str, ...]) -> None:
    """As the commands of the original take it, errors included."""
    before, after = run("--json", *words), run(*words, "--json")
    assert (before.code, before.out, before.err) == (after.code, after.out, after.err)


def test_json_before_the_command_reaches_no_other_program(run: Run) -> None:
    """It goes right after the words that name the command, not to the end of the line."""
    context = typer.Context(typer.main.get_command(app))
    moved = context.command._with_json_after_command  # type: ignore[attr-defined]  # of our own group
    assert moved(context, ["lab", "compare", "a", "b"]) == ["lab", "compare", "--json", "a", "b"]
    assert moved(context, ["lab", "--port", "0"]) == ["lab", "--json", "--port", "0"]
    assert moved(context, ["lab"]) == ["lab", "--json"]
    assert moved(context, ["doctor", "--", "x"]) == ["doctor", "--json", "--", "x"]
    for words in (("bogus",), ("lab", "bogus"), ("--bogus",)):
        ran = run("--json", *words)
        assert ran.code == 2
        assert json.loads(ran.err)["error"]["code"] == "INVALID_ARGUMENT"
    assert "Usage:" in run("--json").out
