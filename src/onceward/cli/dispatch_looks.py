"""How conversations look to people: messages, replies and times; no text can steer a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from onceward.dispatch.models import Message, Reply

#: How much of a text stands in a line of a list.
SHORT_CHARACTERS: Final = 60


def visible(text: str) -> str:
    """Return text that shows everything and does nothing; line breaks stay."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for each in text
    )


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


def words(item: Message | Reply) -> str:
    """Return who says what; what an agent says has a mark that no sender can take for a name."""
    from onceward.dispatch.models import Message

    if isinstance(item, Message):
        note = " (edited)" if item.edited_at else ""
        return f"{visible(item.sender)}{note}: {visible(item.text)}"
    note = "" if item.is_certain else "(maybe not shown) "
    return f"» {note}{visible(item.text)}"


def entry(item: Message | Reply) -> str:
    """Return an item with its number and time; further lines stand below the first."""
    from onceward.dispatch.models import Message

    at = item.received_at if isinstance(item, Message) else item.at
    head = f"{item.seq:>6}  {time(at)}  "
    return head + words(item).replace("\n", "\n" + " " * len(head))


def plain(item: Message | Reply) -> dict[str, Any]:
    """Return an item as HTTP has it."""
    from onceward.dispatch.models import Message

    if isinstance(item, Message):
        return {
            "type": "message",
            "id": item.id,
            "sender": item.sender,
            "text": item.text,
            "timestamp": item.timestamp,
            "receivedAt": item.received_at,
            "editedAt": item.edited_at,
            "seq": item.seq,
        }
    return {
        "type": "reply",
        "key": item.key,
        "text": item.text,
        "at": item.at,
        "seq": item.seq,
        "isCertain": item.is_certain,
    }


def print_table(titles: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    """Print rows below their titles."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(Text("-" if each is None else visible(str(each))) for each in row))
    Console().print(table)
