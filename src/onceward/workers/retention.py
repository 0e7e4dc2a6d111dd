"""Retention: for how long a store keeps what nobody needs any more; `[keep]` in `onceward.toml`.

What is still needed is never removed by age: positions, leases, parked messages, results without a
`ttl`, seeks that can be undone. Removes nothing itself: `pruning` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from onceward.workers.alert_rules import check_names, number, read_config, refuse

DAY_SECONDS: Final = 24 * 3600.0
TABLE: Final = "keep"
DAYS_MAX: Final = 36_500.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """How many days each kind of history is kept; None is for ever."""

    #: Who had a cursor when, and which late writes were rejected.
    grants_days: float = 7.0
    #: How far behind cursors were, measure by measure.
    samples_days: float = 1.0
    #: Worker processes that were not seen since.
    workers_days: float = 1.0
    #: Take-overs, pauses and rollbacks of cursors. Seeks and undos are kept for ever.
    history_days: float = 90.0
    #: Dead letters that were redriven or dropped.
    settled_letters_days: float = 30.0
    #: Dead letters that no operator has decided about: they are dropped.
    dead_letters_days: float | None = None


FIELDS: Final = tuple(each.name for each in fields(Retention))


def read_retention(path: str | None = None) -> Retention:
    """Return what the configuration file says, and what is shipped for the rest."""
    return read_config(parse_retention, path)


def parse_retention(config: Mapping[str, Any]) -> Retention:
    """Return what a configuration means."""
    table = config.get(TABLE, {})
    if not isinstance(table, dict):
        refuse(TABLE, "must be a table", f"write [{TABLE}]")
    check_names(f"{TABLE}.", table, FIELDS)
    days = {name: number(f"{TABLE}.{name}", value, DAYS_MAX) for name, value in table.items()}
    for name, value in days.items():
        if value <= 0:
            refuse(f"{TABLE}.{name}", "must be more than 0", f"write {name} = 7, or leave it out")
    return Retention(**days)
