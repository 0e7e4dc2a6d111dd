"""Queries: our own SQL, one statement a file, the same names for every engine."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

Engine = Literal["sqlite", "postgres"]


def query(engine: Engine, name: str) -> str:
    """Return the text of a query; its first line, a comment, says what it promises."""
    return _queries(engine)[name]


@cache
def _queries(engine: Engine) -> dict[str, str]:
    """Return all: who runs on while another version is installed must not meet its files."""
    return {
        file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
        for file in (files("onceward.stores") / engine).iterdir()
        if file.name.endswith(".sql")
    }


@cache
def migrations(engine: Engine) -> tuple[tuple[int, str, str], ...]:
    """Return number, name and text of every migration, in order."""
    found = []
    for file in (files("onceward.stores") / engine / "migrations").iterdir():
        number, _, rest = file.name.removesuffix(".sql").partition("_")
        found.append((int(number), rest, file.read_text(encoding="utf-8")))
    found.sort()
    assert [number for number, _, _ in found] == list(range(1, len(found) + 1)), found
    return tuple(found)
