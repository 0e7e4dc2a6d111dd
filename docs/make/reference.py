"""Write the reference pages from the code, or report which are outdated."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from docs.make.regions import Maker, Unfit, filled, unsaid
from docs.make.source import ROOT

REFERENCE: Final = ROOT / "docs" / "reference"
#: The module that makes the regions of each page; loaded when it is asked for.
PAGES: Final[Mapping[str, str]] = {
    "cli.md": "reference_cli",
    "http.md": "reference_http",
    "errors.md": "reference_errors",
    "events.md": "reference_events",
    "metrics.md": "reference_metrics",
    "configuration.md": "reference_settings",
    "tables.md": "reference_tables",
    "key-vectors.md": "reference_keys",
    "crash-points.md": "reference_crash",
}


def page(name: str) -> Path:
    """Return where a page is."""
    return REFERENCE / name


def made(name: str) -> str:
    """Return what a page should say; Unfit when a person has to write something first."""
    text = _filled(name)
    if rows := unsaid(text):
        place = page(name).relative_to(ROOT)
        message = (
            f"write into {place}, where `make docs` puts a …, what these are: {'; '.join(rows)}"
        )
        raise Unfit(message)
    return text


def _filled(name: str) -> str:
    regions: Callable[[], Mapping[str, Maker]] = import_module(f"docs.make.{PAGES[name]}").regions
    return filled(page(name).read_text(encoding="utf-8"), regions())


def vectors() -> tuple[Path, str]:
    """Return the file of key vectors, and what it should hold."""
    keys = import_module("docs.make.reference_keys")
    return keys.FILE, keys.document()


def write() -> list[Path]:
    """Write every page and file; return those that were not as they should be."""
    found = {page(name): _filled(name) for name in PAGES}
    found.update([vectors()])
    old = [path for path, text in found.items() if not _holds(path, text)]
    for path in old:
        path.write_text(found[path], encoding="utf-8")
    return old


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def main() -> None:
    """Write the reference, say what was new, and what a person has to say of it."""
    try:
        for path in write():
            print(f"wrote {path.relative_to(ROOT)}")
        for name in PAGES:
            made(name)
    except Unfit as exc:
        sys.exit(f"error: {exc}")
