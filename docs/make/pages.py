"""Read Markdown as GitHub does: title, summary, anchors and links of a page."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

_PARSER: Final = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_NOT_IN_SLUG: Final = re.compile(r"[^\w\- ]")
#: As many whole sentences as it takes to say something.
_SENTENCES: Final = re.compile(r".{40,}?[.?!](?=\s|$)", re.DOTALL)
_HTML_ANCHOR: Final = re.compile(r"""\b(?:id|name)=["']([^"']+)["']""")
_HTML_LINK: Final = re.compile(r"""\b(?:href|src|srcset)=["']([^"'\s]+)["']""")


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """Where a page points to, and in which of its lines."""

    target: str
    line: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """What others need to know about a page."""

    #: Its first heading, without markup.
    title: str
    #: What it begins with, a sentence or two, without markup; empty if that is not prose.
    summary: str
    #: What may stand after `#` in a link to it.
    anchors: frozenset[str]
    links: tuple[Link, ...]


@cache
def read(path: Path) -> Page:
    """Return what the file at `path` says about itself."""
    return parse(path.read_text(encoding="utf-8"))


def parse(text: str) -> Page:
    """Return what this Markdown says about itself."""
    tokens = _PARSER.parse(text)
    headings = [_plain(inside) for inside in _inside(tokens, "heading_open")]
    return Page(
        title=headings[0] if headings else "",
        summary=_summary(tokens[3:]),
        anchors=frozenset([*_slugs(headings), *_html(tokens, _HTML_ANCHOR)]),
        links=tuple(_links(tokens)),
    )


def shape(text: str) -> Counter[str]:
    """Return how many blocks of each kind GitHub makes of this Markdown, by their HTML names."""
    kinds = {
        "blockquote_open": "blockquote",
        "code_block": "pre",
        "fence": "pre",
        "heading_open": "h",
        "list_item_open": "li",
        "table_open": "table",
    }
    return Counter(kinds[each.type] for each in _PARSER.parse(text) if each.type in kinds)


def slug(heading: str) -> str:
    """Return the anchor that GitHub gives a heading, its repetitions aside."""
    return _NOT_IN_SLUG.sub("", heading.strip().lower()).replace(" ", "-")


def _slugs(headings: list[str]) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for heading in headings:
        base = slug(heading)
        yield f"{base}-{seen[base]}" if seen[base] else base
        seen[base] += 1


def _inside(tokens: list[Token], kind: str) -> Iterator[Token]:
    """Yield what stands in every block of this kind."""
    for opening, inside in pairwise(tokens):
        if opening.type == kind:
            yield inside


def _plain(inline: Token) -> str:
    spoken = {"text": None, "code_inline": None, "softbreak": " ", "hardbreak": " "}
    return "".join(
        spoken[each.type] or each.content for each in inline.children or () if each.type in spoken
    )


def _summary(after_title: list[Token]) -> str:
    if not after_title or after_title[0].type != "paragraph_open":
        return ""
    text = _plain(after_title[1])
    found = _SENTENCES.match(text)
    return (found.group() if found else text).removesuffix(":")


def _links(tokens: list[Token]) -> Iterator[Link]:
    for block in tokens:
        line = block.map[0] + 1 if block.map else 0
        for each in block.children or ():
            target = each.attrGet("href") or each.attrGet("src")
            if target is not None:
                yield Link(target=str(target), line=line)
        for target in _html([block], _HTML_LINK):
            yield Link(target=target, line=line)


def _html(tokens: list[Token], pattern: re.Pattern[str]) -> Iterator[str]:
    for block in tokens:
        for each in (block, *(block.children or ())):
            if each.type in ("html_block", "html_inline"):
                yield from pattern.findall(each.content)
