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
    """Return text that shows everything and does nothing; line breaks stay."""
    return text_tables.visible(text, keep=BREAKS)


def line(text: str, characters: int = SHORT_CHARACTERS) -> str:
    """Return the first line of a text, not too long."""
    first, _, rest = text.strip().partition("\n")
    shown = visible(first.rstrip())
    is_cut = bool(rest) or len(shown) > characters
    return f"{shown[:characters]}…" if is_cut else shown


def time(text: str | None) -> str:
    """Return a moment as people read it."""
    return "-" if text is None else f"{text[:19].replace('T', ' ')}Z"


def span(first: int, last: int) -> str:
    """Return which numbers are meant."""
    return str(first) if first == last else f"{first} to {last}"


def words(item: GroupMessage | Reply) -> str:
    """Return who says what; what an agent says has a mark that no sender can take for a name."""
    from onceward.dispatch.models import GroupMessage

    if isinstance(item, GroupMessage):
        note = " (edited)" if item.edited_at else ""
        return f"{visible(item.sender)}{note}: {visible(item.text)}"
    note = "" if item.is_certain else "(maybe not shown) "
    return f"» {note}{visible(item.text)}"


def entry(item: GroupMessage | Reply) -> str:
    """Return an item with its number and time; further lines stand below the first."""
    from onceward.dispatch.models import GroupMessage

    at = item.received_at if isinstance(item, GroupMessage) else item.at
    head = f"{item.seq:>6}  {time(at)}  "
    return head + words(item).replace("\n", "\n" + " " * len(head))


def print_table(titles: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    """Print rows below their titles; line breaks stay."""
    text_tables.print_table(titles, rows, keep=BREAKS)
