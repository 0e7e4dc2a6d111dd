"""Replace the generated regions of a page, and keep what a person wrote around and in them.

A table in one of them may have cells that no code can say. They are the person's, too: written into
the page, and kept by the first cell of their row whenever the table is made again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

BEGIN: Final = "<!-- made: {} -->"
END: Final = "<!-- end -->"
#: Stands where a person has to write what no code can say.
UNSAID: Final = "…"
#: Makes the content of a region, from what stands there now.
Maker = Callable[[str], str]
_REGION: Final = re.compile(r"<!-- made: (.+?) -->\n(.*?)<!-- end -->\n", re.DOTALL)
_BAR: Final = re.compile(r"(?<!\\)\|")


class Unfit(Exception):
    """A page lacks a region, or has one without a maker, or an empty cell."""


def filled(page: str, makers: Mapping[str, Maker]) -> str:
    """Return a page with its regions made again; each maker has one region, each region a maker.

    A region that is missing and brings a heading along is put before the one that comes next.
    """
    names = [found[1] for found in _REGION.finditer(page)]
    if strange := [name for name in names if name not in makers]:
        message = f"there is no {', '.join(strange)} any more; take out what the page says of it"
        raise Unfit(message)
    for number, name in enumerate(makers):
        if name not in names:
            after = next((each for each in list(makers)[number:] if each in names), None)
            page = _with_region(page, name, makers[name](""), before=after)
    return _REGION.sub(lambda found: region(found[1], makers[found[1]](found[2])), page)


def _with_region(page: str, name: str, content: str, *, before: str | None) -> str:
    if not content.startswith("#"):
        message = f"{name} has no place; write {BEGIN.format(name)} and {END}, each on a line"
        raise Unfit(message)
    mark = BEGIN.format(before)
    head, found, tail = page.partition(mark)
    return f"{head.rstrip()}\n\n{region(name, content)}" + (f"\n{found}{tail}" if found else "")


def region(name: str, content: str) -> str:
    """Return content between its marks."""
    return f"{BEGIN.format(name)}\n\n{content.strip()}\n\n{END}\n"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(_escaped, line)) + " |" for line in lines)


def kept_table(old: str, heads: Sequence[str], rows: Sequence[Sequence[str | None]]) -> str:
    """Return a table; a cell that is None is as `old` has it under that head."""
    before = cells(old)
    made = []
    for row in rows:
        known = before.get(row[0] or "", {})
        made.append(
            [
                known.get(head, UNSAID) if cell is None else cell
                for head, cell in zip(heads, row, strict=True)
            ]
        )
    return table(heads, made)


def cells(text: str) -> dict[str, dict[str, str]]:
    """Return the rows of all tables in a text by their first cell, each cell by its head."""
    found: dict[str, dict[str, str]] = {}
    heads: list[str] = []
    for line in text.splitlines():
        if not line.startswith("| "):
            heads = []
            continue
        parts = [each.strip().replace("\\|", "|") for each in _BAR.split(line)[1:-1]]
        if not heads:
            heads = parts
        elif set(parts) != {"---"}:
            found[parts[0]] = dict(zip(heads, parts, strict=False))
    return found


def unsaid(page: str) -> list[str]:
    """Return the rows, and the regions, in which a person has something to write."""
    found = []
    for each in _REGION.finditer(page):
        rows = cells(each[2])
        found += [f"{each[1]}: {row}" for row, parts in rows.items() if UNSAID in parts.values()]
        found += [each[1]] if f"\n{UNSAID}\n" in each[2] else []
    return found


def code(*names: str) -> str:
    """Return names as code, with commas between them."""
    return ", ".join(f"`{name}`" for name in names)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
