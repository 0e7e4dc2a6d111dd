"""Apps that commands load: a broken one is reported as the app's error, not as a bug of ours."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_runner import Run

NOT_OPEN = "from onceward.errors import StoreUnavailable\nraise StoreUnavailable('it is away')\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory from which modules are imported, and forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    yield tmp_path
    sys.modules.pop("their_app", None)


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (None, 2, "module 'their_app' is neither in this directory"),
        ("import no_such_package\n", 2, "cannot be imported: ModuleNotFoundError: No module named"),
        ("def app(:\n", 2, "'their_app' cannot be imported: SyntaxError: "),
        ("[].pop()\n", 2, "'their_app' cannot be imported: IndexError: pop from empty list"),
        (NOT_OPEN, 1, "it is away"),
        ("app = 1\n", 2, "'app' in 'their_app' is not an App"),
        ("from onceward.workers import App\napp = App()\n", 2, "their_app:app has no consumers"),
    ],
)
def test_an_app_that_cannot_be_loaded_is_reported_as_such(
    run: Run, here: Path, text: str | None, code: int, says: str
) -> None:
    """The module, the error and where to see more; users are not asked to report a bug."""
    if text is not None:
        (here / "their_app.py").write_text(text)
    ran = run("cursors", "seek", "c", "1", "--reason", "r", "--app", "their_app:app")
    assert (ran.code, says in ran.err) == (code, True), ran.err
    assert "report" not in ran.err
