"""Retention: read how long a store keeps its history, from `[keep]` in `onceward.toml`.

Live state is never removed by age: positions, leases, parked messages, results without a `ttl`,
seeks that can be undone. `pruning` removes the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from onceward.errors.arguments import reject_field
from onceward.workers.alert_rules import check_names, number, read_config

DAY_SECONDS: Final = 24 * 3600.0
TABLE: Final = "keep"
DAYS_MAX: Final = 36_500.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """How many days each kind of history is kept; None keeps it forever."""

    #: Ended leases, and rejected stale writes.
    grants_days: float = 7.0
    #: Samples of the lag of cursors.
    samples_days: float = 1.0
    #: Worker processes without a heartbeat since.
    workers_days: float = 1.0
    #: Takeovers, pauses and rollbacks of cursors. Seeks and undos are kept forever.
    history_days: float = 90.0
    #: Dead letters that were redriven or dropped.
    settled_letters_days: float = 30.0
    #: Unsettled dead letters; older ones are dropped.
    dead_letters_days: float | None = None


FIELDS: Final = tuple(each.name for each in fields(Retention))


def read_retention(path: str | None = None) -> Retention:
    """Return the retention of the configuration file, with defaults for what it omits."""
    return read_config(parse_retention, path)


def parse_retention(config: Mapping[str, Any]) -> Retention:
    """Return the retention of a parsed configuration."""
    table = config.get(TABLE, {})
    if not isinstance(table, dict):
        reject_field(TABLE, "must be a table", f"write [{TABLE}]")
    check_names(f"{TABLE}.", table, FIELDS)
    days = {name: number(f"{TABLE}.{name}", value, DAYS_MAX) for name, value in table.items()}
    for name, value in days.items():
        if value <= 0:
            reject_field(f"{TABLE}.{name}", "must be more than 0", f"write {name} = 7, or omit it")
    return Retention(**days)
