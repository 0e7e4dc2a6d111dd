"""Installation: check the installed packages, the `onceward` command, coding agents and completion.

A missing optional part is a note, with the command that installs it.
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

#: Coding agents that the documentation of `onceward agent exec` uses.
AGENTS: Final = ("claude", "codex", "gemini", "aider")
#: Where Typer installs shell completion, below the home directory.
COMPLETIONS: Final = {
    "bash": ".bash_completions/onceward.sh",
    "zsh": ".zfunc/_onceward",
    "fish": ".config/fish/completions/onceward.fish",
}
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9._-]+")


def examine_installation() -> list[Check]:
    """Check the installation and the optional programs it works with."""
    return [check for look in CHECKS for check in look()]


def _requirements() -> Iterator[Check]:
    """Check every required package; a copy without metadata cannot be checked."""
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
        why="each package is needed by some command",
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
        detail=f"mcp {found}" if found else "the package mcp is not installed",
        why="agents use it to reach the memory: `onceward memory serve`",
        fix="" if found else f"{_pip()} install mcp",
    )


def _pages() -> Iterator[Check]:
    is_there = (files("onceward") / "http" / "built" / "index.html").is_file()
    yield Check(
        name="pages",
        status="ok" if is_there else "note",
        detail="built" if is_there else "the servers' pages were not built",
        why="without them the console, the Lab and the conversations say how to build them; "
        "the API and the commands work",
        fix=""
        if is_there
        else "`pip install .` in a checkout, or `make web` for an editable installation",
    )


def _command() -> Iterator[Check]:
    """Check which `onceward` program agents, MCP clients and services would start."""
    beside = Path(sys.executable).parent / "onceward"
    found = shutil.which("onceward")
    why = "agents and MCP clients start `onceward` by that name"
    if found is None:
        fix = f'export PATH="{beside.parent}:$PATH", or use the full path {beside}'
        yield Check(name="command", status="note", detail="not on PATH", why=why, fix=fix)
    elif beside.exists() and not Path(found).samefile(beside):
        detail = f"PATH finds {found}, but this program is {beside}"
        fix = f'export PATH="{beside.parent}:$PATH", to use this program'
        yield Check(name="command", status="note", detail=detail, why=why, fix=fix)
    else:
        yield Check(name="command", status="ok", detail=found, why=why)


def _agents() -> Iterator[Check]:
    found = [name for name in AGENTS if shutil.which(name)]
    yield Check(
        name="agents",
        status="ok" if found else "note",
        detail=", ".join(found) or f"none of {', '.join(AGENTS)} is on PATH",
        why="`onceward agent exec` wraps one; any program that takes a prompt works",
        fix="" if found else "install one of them, or pass your own program",
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
        why="with completion, Tab completes commands and options",
        fix="" if is_there else "onceward --install-completion",
    )


def _name(requirement: str) -> str:
    """Return the package name of a requirement."""
    found = _REQUIREMENT.match(requirement)
    assert found is not None, requirement
    return found[0]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _pip() -> str:
    """Return the pip command of this Python."""
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
