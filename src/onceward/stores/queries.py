"""Queries: load our SQL by name from one file per package, `stores/queries/<package>.sql`.

PostgreSQL's functions `onceward_*`, which they call, are defined in `stores/schema/postgres.sql`.
A block begins with `-- name: cursor_acquire`; the comment below it documents the query. A block
with different text for each engine has parts after `-- sqlite:` and `-- postgres:`. A block for one
engine names it: `-- name: outcome_lock (postgres)`. Text that several queries share, or that
differs by one word, is a fragment: `{{ now }}` or `{{ text(created_at) }}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Final, Literal, get_args

Engine = Literal["sqlite", "postgres"]

ENGINES: Final[tuple[Engine, ...]] = get_args(Engine)
#: The name of migration 1, which creates the initial schema.
INITIAL: Final = "initial"
_MIGRATION: Final = re.compile(r"(\d{4})_(\w+)\.(\w+)\.sql")
#: How deep fragments may be nested.
NESTING_MAX: Final = 10
#: The first line of a block: query or fragment, name, argument, and the engine if only one has it.
_TITLE: Final = re.compile(
    r"^-- (?P<kind>name|fragment): (?P<name>\w+)(?:\((?P<argument>\w+)\))?(?: \((?P<only>\w+)\))?$",
    re.MULTILINE,
)
_VARIANT: Final = re.compile(r"^-- (sqlite|postgres):\n", re.MULTILINE)
_COMMENT: Final = re.compile(r"(?:--[^\n]*\n)*")
#: A section heading between two blocks, which belongs to neither.
_TRAILER: Final = re.compile(r"\n\n(?:--[^\n]*\n?)+\s*\Z")
#: A fragment in a text; the innermost one, where an argument holds another.
_USE: Final = re.compile(r"\{\{ (\w+)(?:\(((?:(?!\{\{|\}\}).)*)\))? \}\}")


class InvalidQueries(ValueError):
    """A query file is malformed: the installation is damaged, or a test passed a bad file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryBlock:
    """A query or a fragment, as written in its file."""

    name: str
    #: Documentation of the query.
    comment: str
    #: The text for each engine that has it.
    texts: Mapping[Engine, str]
    #: Whether one text serves both engines.
    is_shared: bool
    #: The name by which a fragment's text refers to its argument.
    argument: str | None


@dataclass(slots=True)
class QueryCatalog:
    """The queries and fragments of all files."""

    queries: dict[str, QueryBlock] = field(default_factory=dict)
    fragments: dict[str, QueryBlock] = field(default_factory=dict)

    def expanded(self, engine: Engine) -> dict[str, str]:
        """Return the text of every query of an engine."""
        return {
            name: self._expand(block.texts[engine], engine, name)
            for name, block in self.queries.items()
            if engine in block.texts
        }

    def _expand(self, text: str, engine: Engine, name: str) -> str:
        """Replace uses of fragments by their text, the innermost first."""
        for _ in range(NESTING_MAX):
            if "{{" not in text:
                return text
            text = _USE.sub(lambda use: self._fragment(use, engine, name), text)
        message = f"{name}: a fragment is not closed, or contains itself"
        raise InvalidQueries(message)

    def _fragment(self, use: re.Match[str], engine: Engine, name: str) -> str:
        block = self.fragments.get(use[1])
        if block is None or engine not in block.texts:
            message = f"{name}: {engine} has no fragment {use[1]}"
            raise InvalidQueries(message)
        if (use[2] is None) != (block.argument is None):
            message = f"{name}: the fragment {use[1]} takes {block.argument or 'no argument'}"
            raise InvalidQueries(message)
        text = block.texts[engine]
        return text if use[2] is None else text.replace(f"{{{block.argument}}}", use[2])


def query(engine: Engine, name: str) -> str:
    """Return the text of a query."""
    return queries(engine)[name]


@cache
def queries(engine: Engine) -> dict[str, str]:
    """Return all queries of an engine by name.

    Reads every file at once: a process that keeps running while another version is installed must
    not read that version's files.
    """
    return catalog().expanded(engine)


@cache
def catalog() -> QueryCatalog:
    """Return the blocks of the files of this package."""
    folder = files("onceward.stores") / "queries"
    found = sorted((each for each in folder.iterdir() if each.name.endswith(".sql")), key=str)
    return parsed(each.read_text(encoding="utf-8") for each in found)


def parsed(texts: Iterable[str]) -> QueryCatalog:
    """Parse files; InvalidQueries for duplicate names, missing variants and unused fragments."""
    found = QueryCatalog()
    for text in texts:
        for kind, block in _blocks(text):
            blocks = found.queries if kind == "name" else found.fragments
            if block.name in blocks:
                message = f"{block.name}: this name is used twice"
                raise InvalidQueries(message)
            blocks[block.name] = block
    _check_uses(found)
    return found


def _blocks(text: str) -> Iterator[tuple[str, QueryBlock]]:
    titles = list(_TITLE.finditer(text))
    ends = [*(title.start() for title in titles[1:]), len(text)]
    for title, end in zip(titles, ends, strict=True):
        yield title["kind"], _block(title, text[title.end() + 1 : end])


def _block(title: re.Match[str], body: str) -> QueryBlock:
    comment = _COMMENT.match(_VARIANT.split(body, maxsplit=1)[0])
    assert comment is not None
    body = _TRAILER.sub("\n", body[comment.end() :])
    shared, *parts = _VARIANT.split(body)
    texts: dict[Engine, str]
    if parts:
        found = dict(zip(parts[::2], parts[1::2], strict=True))
        missing = [engine for engine in ENGINES if engine not in found]
        if missing or shared.strip() or len(found) * 2 != len(parts) or title["only"]:
            message = f"{title['name']}: needs one part for each engine, or one text for both"
            raise InvalidQueries(message)
        texts = {engine: _statement(found[engine]) for engine in ENGINES}
    else:
        engines = [each for each in ENGINES if title["only"] in (None, each)]
        if not engines or not shared.strip():
            message = f"{title['name']}: no engine has a text"
            raise InvalidQueries(message)
        texts = dict.fromkeys(engines, _statement(shared))
    return QueryBlock(
        name=title["name"],
        comment=re.sub(r"^-- ?", "", comment[0], flags=re.MULTILINE).strip(),
        texts=texts,
        is_shared=not parts and not title["only"],
        argument=title["argument"],
    )


def _statement(text: str) -> str:
    """Return a text without its leading comment."""
    comment = _COMMENT.match(text)
    assert comment is not None
    return text[comment.end() :].strip()


def _check_uses(found: QueryCatalog) -> None:
    """Raise InvalidQueries for a fragment that is never used."""
    every = "\n".join(
        text
        for blocks in (found.queries, found.fragments)
        for block in blocks.values()
        for text in block.texts.values()
    )
    used = set(re.findall(r"\{\{ (\w+)", every))
    unused = found.fragments.keys() - used
    if unused:
        message = f"{', '.join(sorted(unused))}: no query uses this fragment"
        raise InvalidQueries(message)


@cache
def migrations(engine: Engine) -> tuple[tuple[int, str, str], ...]:
    """Return number, name and text of the initial schema and of every migration, in order."""
    folder = files("onceward.stores") / "schema"
    initial = (folder / f"{engine}.sql").read_text(encoding="utf-8")
    found = [(1, INITIAL, initial)]
    for file in folder.iterdir():
        title = _MIGRATION.fullmatch(file.name)
        if title is not None and title[3] == engine:
            found.append((int(title[1]), title[2], file.read_text(encoding="utf-8")))
    found.sort()
    assert [number for number, _, _ in found] == list(range(1, len(found) + 1)), found
    return tuple(found)
