"""Parse the modules of the package into syntax trees, for checks and the reference."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "src" / "onceward"


def parse(text: str, filename: str = "<unknown>") -> ast.Module:
    """Parse Python source, again if another thread disturbed it.

    CPython 3.11 counts the depth of its parser for all threads together (gh-106905), and a
    thread that logs a traceback parses its lines.
    """
    for _ in range(10):
        with suppress(SystemError):
            return ast.parse(text, filename=filename)
    return ast.parse(text, filename=filename)


@dataclass
class Module:
    """One file."""

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Return what the text means to Python."""
        return parse(self.text)

    @property
    def package(self) -> str:
        """Return the package that it is in, or its own name."""
        return self.path.relative_to(PACKAGE).parts[0].removesuffix(".py")

    def place(self, node: ast.AST) -> str:
        """Return where a node stands, such as `src/onceward/system/logs.py:12`."""
        return f"{self.path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Give every function, also those inside classes and other functions."""
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node


@cache
def modules() -> tuple[Module, ...]:
    """Return all of them, sorted by path."""
    found = sorted(PACKAGE.rglob("*.py"))
    return tuple(Module(path, path.read_text(encoding="utf-8")) for path in found)
