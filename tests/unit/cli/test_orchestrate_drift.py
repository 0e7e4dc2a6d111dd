"""`onceward resume` when files changed: what it shows, what it asks, and its exit codes."""

import json

import pytest
import typer

from onceward.errors import Drifted
from tests.support.command_runner import Run
from tests.support.fake_orchestrator import FakeOrchestrator


def drift(count: int, lines: int = 1) -> Drifted:
    changes = [f"changed file-{number:02}" for number in range(count)]
    diff = "".join(f"+  line\t{number} \x1b[2J\n" for number in range(lines))
    return Drifted(f"{count} files are not as the run left them", changes=changes, diff=diff)


@pytest.mark.usefixtures("workspace")
def test_drift_is_listed_and_refused_without_a_terminal(
    run: Run, played: type[FakeOrchestrator]
) -> None:
    """The first ten files, how many more, and the option that goes on."""
    played.refusal = drift(12)
    ran = run("resume")
    assert (ran.code, ran.out) == (3, "")
    assert "  changed file-00\n" in ran.err
    assert "file-09" in ran.err
    assert "file-10" not in ran.err
    assert "  and 2 more\n" in ran.err
    assert "+  line" not in ran.err
    assert "--accept-drift" in ran.err


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize(
    ("answer", "asked"),
    [("keep", (None, True, False, False)), ("redo", (None, False, True, False)), ("stop", None)],
)
def test_drift_is_asked_about_on_a_terminal(
    run: Run,
    played: type[FakeOrchestrator],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    asked: tuple[object, ...] | None,
) -> None:
    """Keep, redo, or stop; what is none of them is asked again."""
    played.refusal = drift(1)
    answers = iter(["perhaps", answer])
    monkeypatch.setattr("onceward.cli.orchestrate._is_terminal", lambda: True)
    monkeypatch.setattr(typer, "prompt", lambda *_, **__: next(answers))
    ran = run("resume")
    assert ran.code == (0 if asked else 3)
    assert played.asked[1:] == ([asked] if asked else [])


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize(("lines", "more"), [(100, None), (130, "… 30 more lines\n")])
def test_drift_is_shown_line_by_line_on_a_terminal(
    run: Run,
    played: type[FakeOrchestrator],
    monkeypatch: pytest.MonkeyPatch,
    lines: int,
    more: str | None,
) -> None:
    """As far as it fits on a few screens, with its spaces and without control characters."""
    played.refusal = drift(1, lines)
    monkeypatch.setattr("onceward.cli.orchestrate._is_terminal", lambda: True)
    monkeypatch.setattr(typer, "prompt", lambda *_, **__: "stop")
    ran = run("resume")
    assert ran.code == 3
    assert "+  line 99  [2J\n" in ran.err
    assert "\x1b" not in ran.err
    assert ("more lines" in ran.err) == (more is not None)
    assert (more or "") in ran.err
    assert "line 100" not in ran.err


@pytest.mark.usefixtures("workspace")
def test_machines_are_not_asked(
    run: Run, played: type[FakeOrchestrator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --json drift is an error that carries the files."""
    played.refusal = drift(12)
    monkeypatch.setattr("onceward.cli.orchestrate._is_terminal", lambda: True)
    ran = run("resume", "--json")
    assert (ran.code, ran.out) == (3, "")
    context = json.loads(ran.err)["error"]["context"]
    assert len(context["changes"]) == 12
    assert context["diff"].startswith("+  line")
