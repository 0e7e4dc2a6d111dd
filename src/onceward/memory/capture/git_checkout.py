"""Git checkout: the repository and branch of a directory."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Timeout of a git command.
GIT_SECONDS_MAX: Final = 5.0
#: `owner/name` at the end of a remote URL.
_OWNED: Final = re.compile(r"[:/]([^/:@\s]+/[^/:@\s]+)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkout:
    """A repository and branch; empty if unknown."""

    #: `owner/name` of its remote, or else its path.
    repo: str = ""
    branch: str = ""


def checkout_of(directory: Path) -> Checkout:
    """Return the checkout of a directory; empty without git or outside a repository."""
    root = _git(directory, "rev-parse", "--show-toplevel")
    if not root:
        return Checkout()
    address = _git(directory, "remote", "get-url", "origin").removesuffix("/").removesuffix(".git")
    owned = _OWNED.search(address) if "://" in address or "@" in address else None
    return Checkout(
        repo=owned[1] if owned else root,
        branch=_git(directory, "symbolic-ref", "--quiet", "--short", "HEAD"),
    )


def current_root() -> str:
    """Return the root of the checkout of the current directory; empty if there is none."""
    try:
        here = Path.cwd()
    except OSError:  # Removed, or not accessible.
        return ""
    return next((str(e) for e in (here, *here.parents) if os.path.exists(e / ".git")), "")  # noqa: PTH110 - never raises


def _git(directory: Path, *words: str) -> str:
    try:
        ran = subprocess.run(  # noqa: S603 - fixed words
            ["git", *words],  # noqa: S607 - the git that the user has
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.decode(errors="replace").strip() if ran.returncode == 0 else ""
