"""Change history: record every operator action on a cursor, such as a seek or a pause."""

from __future__ import annotations

from onceward.cursors.models import REASON_CHARACTERS_MAX, HistoryKind, check_text
from onceward.stores import Transaction


def record_change(  # noqa: PLR0913 - one argument a column, all by name
    tx: Transaction,
    *,
    cursor: str,
    kind: HistoryKind,
    actor: str,
    reason: str,
    from_position: str | None,
    to_position: str | None,
    epoch: int,
    undoes: int | None = None,
) -> int:
    """Record a change in the transaction that makes it, and return the entry's id."""
    rows = tx.query(
        "history_add",
        name=cursor,
        kind=kind,
        actor=check_text("actor", actor, characters_max=REASON_CHARACTERS_MAX, may_be_empty=False),
        reason=check_text(
            "reason", reason, characters_max=REASON_CHARACTERS_MAX, may_be_empty=True
        ),
        from_position=from_position,
        to_position=to_position,
        epoch=epoch,
        undoes=undoes,
    )
    return int(rows[0][0])
