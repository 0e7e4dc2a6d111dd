"""Queries: our own SQL, one statement a file, the same names for every engine.

What both engines understand alike stands in `both`; the rest has a twin for each of them. A rule
that several statements of an engine obey is a piece, and stands in them as `{{ its_name }}`.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final, Literal

Engine = Literal["sqlite", "postgres"]

_PIECE: Final = re.compile(r"\{\{ (\w+) \}\}")


def query(engine: Engine, name: str) -> str:
    """Return the text of a query; its first line, a comment, says what it promises."""
    return queries(engine)[name]


@cache
def queries(engine: Engine) -> dict[str, str]:
    """Return all: who runs on while another version is installed must not meet its files."""
    pieces = {
        name: text.partition("\n")[2].strip() for name, text in _texts(f"{engine}/pieces").items()
    }
    found = {**_texts("both"), **_texts(engine)}
    return {name: _PIECE.sub(lambda match: pieces[match[1]], text) for name, text in found.items()}


def _texts(place: str) -> dict[str, str]:
    return {
        file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
        for file in (files("onceward.stores") / place).iterdir()
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
