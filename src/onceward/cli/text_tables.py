"""Text tables: rows for a terminal, without control characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def visible(text: str, *, keep: str = "") -> str:
    """Replace characters that a terminal would interpret; characters of `keep` stay."""
    return "".join(
        each if each.isprintable() or each in keep else "\N{REPLACEMENT CHARACTER}" for each in text
    )


def shown(value: object) -> str:
    """Return a value as printable text; a dash for None."""
    return "-" if value is None else visible(str(value))


def print_table(titles: Sequence[str], rows: Iterable[Sequence[object]], *, keep: str = "") -> None:
    """Print rows below their titles; characters of `keep` stay as they are."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(
            *(Text("-" if each is None else visible(str(each), keep=keep)) for each in row)
        )
    Console().print(table)
