"""Build the documentation as a site that needs no server, and check its links."""

import logging
from pathlib import Path
from typing import Final

from mkdocs.commands.build import build as mkdocs_build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

from docs.make import built, links

ROOT: Final = links.ROOT
SITE: Final = ROOT / "build" / "site"


class Broken(SystemExit):
    """Something leads nowhere; the message has a line for each."""


def main() -> None:
    """Build the site where `make docs` has it, and say where to open it."""
    build(SITE)
    count = sum(1 for _ in SITE.rglob("*.html"))
    print(f"{count} pages, every link and anchor checked; open {(SITE / 'index.html').as_uri()}")


def build(into: Path) -> None:
    """Build the site into a folder; raise Broken for any warning, dead link or foreign request."""
    said: list[str] = [fault for page in links.prose() for fault in links.broken(page)]
    handler = _Remember(said)
    logger = logging.getLogger("mkdocs")
    logger.addHandler(handler)
    try:
        mkdocs_build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(into), strict=True))
    except Abort as aborted:
        said.append(str(aborted))
    finally:
        logger.removeHandler(handler)
    said += built.wrong(into)
    if said:
        raise Broken("\n".join(["The site is broken:", *said]))


class _Remember(logging.Handler):
    """Keeps every warning, because a site with one is not to be had."""

    def __init__(self, said: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(record.getMessage())
