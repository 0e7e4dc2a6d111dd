"""Find relative links of the Markdown files that lead nowhere on GitHub, offline."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from docs.make import pages

ROOT: Final = Path(__file__).parents[2]
#: Folders of the tree that hold prose; of the root itself, every Markdown file.
PROSE: Final = ("docs", "examples")


def prose(root: Path = ROOT) -> list[Path]:
    """Return every page of the tree."""
    inside = (page for folder in PROSE for page in (root / folder).rglob("*.md"))
    return sorted([*root.glob("*.md"), *inside])


def broken(page: Path, root: Path = ROOT) -> Iterator[str]:
    """Yield a sentence for every relative link of `page` that leads nowhere."""
    for link in pages.read(page).links:
        if wrong := _wrong(page, link.target, root):
            yield f"{page.relative_to(root)}:{link.line}: {link.target}: {wrong}"


def target_of(page: Path, link: str) -> Path | None:
    """Return the file or folder that a link of `page` names, or None for another host."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    # Not `resolve`: what a link names is decided by its text, not by links of the disk.
    return Path(os.path.normpath(page.parent / unquote(parts.path))) if parts.path else page


def _wrong(page: Path, link: str, root: Path) -> str | None:
    target = target_of(page, link)
    if target is None:
        return None
    if urlsplit(link).path.startswith("/"):
        return "begins at a root that depends on who shows the page"
    if not target.is_relative_to(root):
        return "is outside the project"
    if not target.exists():
        return "does not exist"
    anchor = unquote(urlsplit(link).fragment)
    anchors = pages.read(target).anchors if anchor and target.suffix == ".md" else ()
    return "no heading has this anchor" if anchor and anchor not in anchors else None
