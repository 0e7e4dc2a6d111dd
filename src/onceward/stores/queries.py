"""Queries: our own SQL, one statement a file, the same names for every engine."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

Engine = Literal["sqlite", "postgres"]


@cache
def query(engine: Engine, name: str) -> str:
    """Return the text of a query; its first line, a comment, says what it promises."""
    return (files("onceward.stores") / engine / f"{name}.sql").read_text(encoding="utf-8")


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
