"""Dispatch format: conversations as text for a terminal, without control characters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from onceward.cli import text_tables

if TYPE_CHECKING:
    from onceward.dispatch.models import GroupMessage, Reply

#: Characters of a message that may reach the terminal.
BREAKS: Final = "\n\t"
#: Maximum length of a text in a list.
SHORT_CHARACTERS: Final = 60


def visible(text: str) -> str:
    """Return a text with control characters made visible; line breaks stay."""
    return text_tables.visible(text, keep=BREAKS)


def line(text: str, characters: int = SHORT_CHARACTERS) -> str:
    """Return the first line of a text, cut to a maximum length."""
    first, _, rest = text.strip().partition("\n")
    shown = visible(first.rstrip())
    is_cut = bool(rest) or len(shown) > characters
    return f"{shown[:characters]}…" if is_cut else shown


def time(text: str | None) -> str:
    """Return a timestamp as a person reads it."""
    return "-" if text is None else f"{text[:19].replace('T', ' ')}Z"


def span(first: int, last: int) -> str:
    """Return a range of numbers as text."""
    return str(first) if first == last else f"{first} to {last}"


def words(item: GroupMessage | Reply) -> str:
    """Return sender and text; an agent's mark cannot be a sender's name."""
    from onceward.dispatch.models import GroupMessage

    if isinstance(item, GroupMessage):
        note = " (edited)" if item.edited_at else ""
        return f"{visible(item.sender)}{note}: {visible(item.text)}"
    note = "" if item.is_certain else "(maybe not shown) "
    return f"» {note}{visible(item.text)}"


def entry(item: GroupMessage | Reply) -> str:
    """Return an item with its number and time; further lines are indented below the first."""
    from onceward.dispatch.models import GroupMessage

    at = item.received_at if isinstance(item, GroupMessage) else item.at
    head = f"{item.seq:>6}  {time(at)}  "
    return head + words(item).replace("\n", "\n" + " " * len(head))


def print_table(titles: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    """Print rows below their titles; line breaks stay."""
    text_tables.print_table(titles, rows, keep=BREAKS)
