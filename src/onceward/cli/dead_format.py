"""Dead letter format: dead letters and plans as text for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from onceward.cli.text_tables import visible
from onceward.system import timestamp

if TYPE_CHECKING:
    from onceward.dispatch import GroupMessage
    from onceward.retries import DeadLetter, DeadLetterDetail

#: How many bytes of a message are printed.
RAW_SHOWN_BYTES: Final = 1_024
#: How many letters a plan names by cursor, and how many numbers it lists.
_CURSORS_SHOWN: Final = 20
_NUMBERS_SHOWN: Final = 20


def numbers(ids: Sequence[int]) -> str:
    """Return the numbers of letters, the first ones where there are many."""
    rest = len(ids) - _NUMBERS_SHOWN
    shown = ", ".join(map(str, ids[:_NUMBERS_SHOWN])) or "nothing"
    return f"{shown} and {rest} more" if rest > 0 else shown


def settled_text(letters: Iterable[DeadLetter]) -> str:
    """Return who redrove or dropped letters before, and when."""
    said = [
        f"dead letter {each.id} was {each.state} by {each.changed_by or 'another operator'}"
        f" at {timestamp(each.changed_at)[:19]}Z"
        for each in letters
    ]
    rest = len(said) - _NUMBERS_SHOWN
    shown = "; ".join(said[:_NUMBERS_SHOWN])
    return visible(f"{shown}; and {rest} more" if rest > 0 else shown)


def plan_lines(
    action: str,
    dead: Sequence[DeadLetter],
    settled: Sequence[DeadLetter],
    messages: Mapping[int, int],
) -> list[str]:
    """Return what a redrive or drop would change; `messages` counts those of chat letters."""
    letters = "dead letter" if len(dead) == 1 else "dead letters"
    lines = [f"would {action} {len(dead)} {letters}: {numbers([each.id for each in dead])}"]
    by_cursor: Counter[str] = Counter()
    for each in dead:
        by_cursor[each.cursor] += messages.get(each.id, 1)
    for cursor, count in by_cursor.most_common(_CURSORS_SHOWN):
        lines.append(f"  {visible(cursor)}: {count} {'message' if count == 1 else 'messages'}")
    if len(by_cursor) > _CURSORS_SHOWN:
        lines.append(f"  and {len(by_cursor) - _CURSORS_SHOWN} cursors more")
    if settled:
        lines.append(f"would skip {len(settled)}: {settled_text(settled)}")
    return lines


def print_table(letters: Sequence[DeadLetter]) -> None:
    """Print one line for each letter, cut to the width of the terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not letters:
        print("no dead letters")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("id", "died", "cursor", "position", "key", "tries", "error"):
        # Ids and times are never cut; the other columns are cut to the terminal's width.
        table.add_column(heading, no_wrap=heading in ("id", "died", "tries"))
    for letter in letters:
        state = "" if letter.state == "dead" else f"[{letter.state}] "
        cells = (
            *(str(letter.id), timestamp(letter.dead_at)[:16] + "Z", letter.cursor, _place(letter)),
            *(letter.key or "", str(letter.attempts)),
            f"{state}{letter.error_type}: {letter.error_message}",
        )
        table.add_row(*(Text(visible(cell), no_wrap=True, overflow="ellipsis") for cell in cells))
    Console().print(table)


def print_detail(letter: DeadLetterDetail, messages: Sequence[GroupMessage]) -> None:
    """Print all that a letter holds, and the messages of a chat letter."""
    from onceward.cli.dispatch_format import entry
    from onceward.retries.views import plain

    for name, value in plain(letter).items():
        if name not in ("raw_base64", "error_trace", "failures"):
            print(f"{name:<16} {visible(str(value)) if value is not None else ''}")
    print("attempts:")
    for each in letter.failures:
        print(f"  {each.attempt:<3} {timestamp(each.at)} {visible(each.error)}")
    if letter.source == "chat":
        print("messages:" if messages else "messages: pending again under other numbers")
        for message in messages:
            print(entry(message))
        return
    print("trace:")
    for line in letter.error_trace.splitlines():
        print(f"  {visible(line)}")
    shown = letter.raw[:RAW_SHOWN_BYTES]
    print(f"message, {len(shown)} of {letter.raw_size} bytes:")
    for line in shown.decode(errors="backslashreplace").splitlines():
        print(f"  {visible(line)}")


def _place(letter: DeadLetter) -> str:
    if letter.source == "worker" or letter.first_seq == letter.last_seq:
        return letter.position
    return f"{letter.first_seq}-{letter.last_seq}"
