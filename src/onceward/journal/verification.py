"""Journal verification: classify each line of a journal as record, blank or damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import orjson

from onceward.journal.line_scanner import BYTE_ORDER_MARK, blocks
from onceward.journal.models import Damage, JournalVerification, Record
from onceward.system import OpenFile

#: Maximum number of damaged lines that are described.
DAMAGE_COUNT_MAX: Final = 100
RECORD: Final = "record"
BLANK: Final = "blank"


def verify_file(file: OpenFile, valid: Callable[[Record], bool] | None) -> JournalVerification:
    """Check every line, then sync the file."""
    size = file.stat().size
    counts: Counter[str] = Counter()
    damage: list[Damage] = []
    position = 0
    for _, block, length in blocks(file, 0, size):
        for line in block[: length - 1].split(b"\n"):
            kind = _kind(line.removeprefix(BYTE_ORDER_MARK) if position == 0 else line, valid)
            counts[kind] += 1
            if kind not in (RECORD, BLANK) and len(damage) < DAMAGE_COUNT_MAX:
                damage.append(Damage(offset=position, length=len(line), reason=kind))
            position += len(line) + 1
    file.sync()
    return JournalVerification(
        size=size,
        record_count=counts[RECORD],
        blank_count=counts[BLANK],
        damaged_count=counts.total() - counts[RECORD] - counts[BLANK],
        damage=tuple(damage),
        torn_bytes=size - position,
    )


def _kind(line: bytes, valid: Callable[[Record], bool] | None) -> str:
    """Return RECORD, BLANK, or the reason why a line is neither."""
    if not line.strip():
        return BLANK
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as exc:
        return f"not JSON: {exc.msg}"
    if type(found) is not dict:
        return "not a JSON object"
    if valid is not None and not valid(found):
        return "not a valid record"
    return RECORD
