"""Installation: what belongs to Onceward and is there, and what it could use and is not.

Whatever is optional and missing is a note, with how to get it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from onceward.doctor.models import Check

#: Programs that `onceward agent exec` is described with.
AGENTS: Final = ("claude", "codex", "gemini", "aider")
#: Where Typer puts what makes a shell complete our commands, below the home directory.
COMPLETIONS: Final = {
    "bash": ".bash_completions/onceward.sh",
    "zsh": ".zfunc/_onceward",
    "fish": ".config/fish/completions/onceward.fish",
}
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9._-]+")


def examine_installation() -> list[Check]:
    """Look at what was installed, and at what it works with."""
    return [check for look in CHECKS for check in look()]


def _requirements() -> Iterator[Check]:
    """Look for every package that ours requires; a copy without metadata says nothing of them."""
    try:
        ours = distribution("onceward")
    except PackageNotFoundError:
        return
    wanted = [each for each in ours.requires or () if "extra ==" not in each]
    missing = [name for name in map(_name, wanted) if _version(name) is None]
    listed = ", ".join(missing)
    yield Check(
        name="packages",
        status="fail" if missing else "ok",
        detail=f"missing: {listed}" if missing else f"all {len(wanted)} of onceward {ours.version}",
        why="each of them is needed by some command",
        fix=f"{_pip()} install {' '.join(missing)}" if missing else "",
    )


def _postgres() -> Iterator[Check]:
    found = [name for name in ("psycopg", "psycopg_pool") if find_spec(name) is None]
    why = "stores at postgresql:// need it; SQLite does not"
    if not found:
        detail = f"psycopg {_version('psycopg')}"
        yield Check(name="postgres", status="ok", detail=detail, why=why)
        return
    fix = f"{_pip()} install 'onceward[postgres]'"
    yield Check(name="postgres", status="note", detail="no driver for PostgreSQL", why=why, fix=fix)


def _mcp() -> Iterator[Check]:
    found = _version("mcp")
    yield Check(
        name="mcp",
        status="ok" if found else "warn",
        detail=f"mcp {found}" if found else "the package mcp is not here",
        why="agents reach the memory by it: `onceward memory serve`",
        fix="" if found else f"{_pip()} install mcp",
    )


def _pages() -> Iterator[Check]:
    is_there = (files("onceward") / "console" / "built" / "index.html").is_file()
    yield Check(
        name="pages",
        status="ok" if is_there else "note",
        detail="built" if is_there else "the console's pages were not built",
        why="`onceward up` shows one plain page without them; all else works",
        fix=""
        if is_there
        else "`pip install .` in a checkout, or `make web` if it is used in place",
    )


def _command() -> Iterator[Check]:
    """Look which `onceward` others would start: agents, MCP clients, services."""
    beside = Path(sys.executable).parent / "onceward"
    found = shutil.which("onceward")
    why = "agents and MCP clients start `onceward` by that name"
    if found is None:
        fix = f'export PATH="{beside.parent}:$PATH", or write {beside}'
        yield Check(name="command", status="note", detail="not on PATH", why=why, fix=fix)
    elif beside.exists() and not Path(found).samefile(beside):
        detail = f"PATH leads to {found}, and this is {beside}"
        fix = f'export PATH="{beside.parent}:$PATH", if this is the one you mean'
        yield Check(name="command", status="note", detail=detail, why=why, fix=fix)
    else:
        yield Check(name="command", status="ok", detail=found, why=why)


def _agents() -> Iterator[Check]:
    found = [name for name in AGENTS if shutil.which(name)]
    yield Check(
        name="agents",
        status="ok" if found else "note",
        detail=", ".join(found) or f"none of {', '.join(AGENTS)} is on PATH",
        why="`onceward agent exec` wraps one; any program that takes a prompt will do",
        fix="" if found else "install one of them, or name your own program",
    )


def _completion() -> Iterator[Check]:
    shell = Path(os.environ.get("SHELL", "")).name
    if shell not in COMPLETIONS:
        return
    is_there = (Path.home() / COMPLETIONS[shell]).exists()
    yield Check(
        name="completion",
        status="ok" if is_there else "note",
        detail=f"{'set up' if is_there else 'not set up'} for {shell}",
        why="Tab then completes commands and options",
        fix="" if is_there else "onceward --install-completion",
    )


def _name(requirement: str) -> str:
    """Return the package that a requirement names."""
    found = _REQUIREMENT.match(requirement)
    assert found is not None, requirement
    return found[0]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _pip() -> str:
    """Return the command that installs beside this very Python."""
    return f"{shlex.quote(sys.executable)} -m pip"


CHECKS: Final[tuple[Callable[[], Iterator[Check]], ...]] = (
    _requirements,
    _postgres,
    _mcp,
    _pages,
    _command,
    _agents,
    _completion,
)
