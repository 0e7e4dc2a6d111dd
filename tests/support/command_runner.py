"""Command runner: call the command line in this process, and keep its output."""

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from onceward.cli import main


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON line on stdout."""
        (line,) = self.out.splitlines()
        return json.loads(line)


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Call the command line with these words."""

    def call(*words: str, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "argv", ["onceward", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        assert "Traceback" not in captured.err
        return Ran(code, captured.out, captured.err)

    return call
