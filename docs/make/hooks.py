"""Configure MkDocs beyond mkdocs.yml, so that pages read the same here and on GitHub."""

import html
import logging
import os
import re
from collections import Counter
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.make import links, pages, shown
from docs.make.places import (
    AS_THEY_ARE,
    DOCS,
    EXAMPLES,
    ROOT,
    SECTIONS,
    beside_docs,
    navigation,
    place,
)

ICON: Final = ROOT / "src/onceward/console/pages/icon.svg"
#: Links and pictures, in Markdown and in the little HTML that our pages have.
_LINK: Final = re.compile(r"""(\]\(|\b(?:href|src|srcset)=")([^)\s"#]+)""")
_FENCED: Final = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
_NAMED: Final = re.compile(r"^(`{3,}\w+) ([^\s=]+)$", re.MULTILINE)
_CONSOLE: Final = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: A list that begins right below a line of prose; MkDocs wants an empty line between them.
_LIST_BELOW: Final = re.compile(r"^(?![-*+] |\d+\. |[\s#|])(.+\n)(?=[-*+] |1\. )", re.MULTILINE)
_BLOCK: Final = re.compile(r"<(blockquote|h(?=[1-6])|li|pre|table)(?=[\s>1-6])")
#: What stands in the site and not in `docs/`: its place there, its file in the tree.
_paths: Final[dict[str, Path]] = {}
_log: Final = logging.getLogger("mkdocs.onceward")
_NEEDS_SERVER: Final = frozenset(["404.html", "sitemap.xml"])
_CONSOLE_BLOCK: Final = '<div class="language-console highlight">'


def on_config(config: MkDocsConfig) -> None:
    """Give headings the anchors that GitHub gives them, and leave out what needs a server."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = lambda text, _: pages.slug(text)
    config.theme.static_templates -= _NEEDS_SERVER


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages outside `docs/`, the generated ones, and the navigation."""
    for file in [each for each in files if each.src_uri in _NEEDS_SERVER]:
        files.remove(file)
    for path in beside_docs():
        _paths[place(path)] = path
        if path.is_file() and path.suffix in (".md", *AS_THEY_ARE):
            files.append(File.generated(config, place(path), abs_src_path=str(path)))
        else:
            files.append(File.generated(config, place(path), content=shown.source(path)))
    for path in DOCS.rglob("*.sql"):
        files.append(File.generated(config, place(path), content=shown.source(path)))
    for section in (*SECTIONS, EXAMPLES):
        to = place(ROOT / section.folder)
        files.append(File.generated(config, to, content=shown.index(section)))
    files.append(File.generated(config, "assets/icon.svg", abs_src_path=str(ICON)))
    config.nav = navigation()


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to places of the site, and give named blocks a title."""
    del config, files
    if page.parent is None:  # Alone under its tab, so there is nothing to show beside it.
        page.meta.setdefault("hide", ["navigation"])
    here = page.file.src_uri
    at = _path_of(here)
    rewritten, end = [], 0
    for fenced in _FENCED.finditer(markdown):
        rewritten += [_rewritten(markdown[end : fenced.start()], at, here), fenced.group()]
        end = fenced.end()
    rewritten.append(_rewritten(markdown[end:], at, here))
    return _NAMED.sub(r'\1 title="\2"', "".join(rewritten))


def on_page_content(html_text: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let a session's button copy its commands alone; warn where GitHub shows something else."""
    del config, files
    here, there = Counter(_BLOCK.findall(html_text)), pages.shape(page.markdown or "")
    if here != there:
        only = f"{dict(there - here)} shown by GitHub alone, {dict(here - there)} by the site alone"
        _log.warning("%s: %s; leave an empty line before a block", page.file.src_uri, only)
    before, *blocks = html_text.split(_CONSOLE_BLOCK)
    sessions = _CONSOLE.findall(page.markdown or "")
    assert len(blocks) == len(sessions), (page.file.src_uri, len(blocks), len(sessions))
    for session, block in zip(sessions, blocks, strict=True):
        commands = "\n".join(
            line.removeprefix("$ ") for line in session.splitlines() if line.startswith("$ ")
        )
        before += f'{_CONSOLE_BLOCK[:-1]} data-copy="{html.escape(commands)}">{block}'
    return before


def _path_of(source: str) -> Path:
    """Return the file of the tree that stands at this place; for an index, one that might."""
    is_example = source.startswith(f"{EXAMPLES.folder}/")
    return _paths.get(source, (ROOT if is_example else DOCS) / source)


def _rewritten(text: str, at: Path, here: str) -> str:
    def relink(found: re.Match[str]) -> str:
        target = links.target_of(at, found[2])
        if target is None or not target.exists():
            return found[0]
        return found[1] + os.path.relpath(place(target), Path(here).parent)

    return _LINK.sub(relink, _LIST_BELOW.sub(r"\1\n", text))
