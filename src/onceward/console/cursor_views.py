"""Cursor views: pages of cursors, and one with history, leases and lag, for the API. Read-only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import orjson

from onceward.client import Onceward
from onceward.console.context import ConsoleContext
from onceward.console.cursor_blockers import CursorDetails, FailingMessage, blocked_because
from onceward.console.lag_trend import Sample, Shape, shape_of, spark_of
from onceward.console.responses import extended, moment, of_row
from onceward.cursors import CursorState, HistoryEntry
from onceward.cursors.lease_history import Grant, RejectedWrite, grants_of, rejected_writes_of
from onceward.workers.lag_records import LagRecords
from onceward.workers.retention import DAY_SECONDS
from onceward.workers.views import CursorView, StateName, cursor_view, state_name

HISTORY_MAX: Final = 100
TRACES_MAX: Final = 50
#: Lag samples of one cursor in a response, and how many are read for them.
SAMPLES_MAX: Final = 500
SAMPLES_READ_MAX: Final = 10_000
#: Lag samples per cursor in a list, and in a list that is longer than a screen.
SPARK_SAMPLES: Final = 60
SPARK_SAMPLES_IN_LONG: Final = 30
SCREEN_CURSORS_MAX: Final = 100
#: A longer list has no sparklines, which would need a million samples.
SPARK_CURSORS_MAX: Final = 500
#: In a list, parked messages and dead letters are counted up to this number.
COUNTED_MAX: Final = 1_000
#: The same limit for a long list.
COUNTED_IN_LONG_MAX: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class CursorItem(CursorView):
    """A cursor in a list."""

    #: Pass it as `seen` of an action. A text here: `rules_version` is the number of the state.
    version: str  # type: ignore[assignment]
    #: The version of the position's format.
    rules_version: int
    state: StateName
    shape: Shape
    spark: list[int]
    #: Messages, as far as they were counted.
    parked: int
    dead: int
    #: Why the cursor makes no progress; None if nothing blocks it.
    blocked_because: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LagSample:
    """One lag sample of a cursor."""

    taken_at: str
    position: str | None
    processed_count: int
    lag_messages: int | None
    lag_seconds: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class UndoableSeek:
    """The seek that an undo would revert."""

    id: int
    from_position: str | None
    to_position: str | None
    happened_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CursorDetail(CursorItem):
    """A cursor with its history, leases, rejected stale writes and lag."""

    history: tuple[HistoryEntry, ...]
    grants: tuple[Grant, ...]
    refusals: tuple[RejectedWrite, ...]
    #: Of the last day, oldest first.
    samples: list[LagSample]
    #: The failing message that blocks the cursor, if there is one.
    attempts: list[FailingMessage]
    #: Whether a seek can count what it repeats.
    can_count: bool
    undoable: UndoableSeek | None
    as_of: str


def items_of(ow: Onceward, states: Sequence[CursorState]) -> list[CursorItem]:
    """Return cursors for a list."""
    if not states:
        return []
    names = [state.name for state in states]
    measures, beside = LagRecords(ow).of(names), _beside(ow, names)
    samples = _samples(ow, names) if len(names) <= SPARK_CURSORS_MAX else {}
    found = []
    for state in states:
        # Leave out cursors that were removed since.
        if (known := beside.get(state.name)) is None:
            continue
        measure, line = measures.get(state.name), samples.get(state.name, ())
        found.append(
            extended(
                CursorItem,
                cursor_view(state, measure),
                rules_version=state.version,
                version=_version(state, known),
                state=state_name(state),
                shape=shape_of(line),
                spark=spark_of(line),
                parked=known.parked,
                dead=known.dead,
                blocked_because=blocked_because(state, measure, known),
            )
        )
    return found


def item_of(ow: Onceward, name: str) -> CursorItem:
    """Return one cursor as in a list; CursorMissing if there is none."""
    return items_of(ow, [ow.cursors.show(name)])[0]


def version_of(ow: Onceward, name: str) -> str:
    """Return a version that changes whenever an operator changes a cursor."""
    state = ow.cursors.show(name)
    return _version(state, _beside(ow, [name])[name])


def detail_of(context: ConsoleContext, name: str) -> CursorDetail:
    """Return all details of one cursor; CursorMissing if there is none."""
    ow = context.ow()
    with ow.store.snapshot():
        item = item_of(ow, name)
        failing = _beside(ow, [name])[name].failing
        undoable = ow.store.read("cursor_undoable", name=name)
        return extended(
            CursorDetail,
            item,
            history=ow.cursors.history(name, HISTORY_MAX),
            grants=grants_of(ow.store, name, TRACES_MAX),
            refusals=rejected_writes_of(ow.store, name, TRACES_MAX),
            samples=_thinned(ow, name),
            attempts=[failing] if failing else [],
            can_count=context.count_of(name) is not None,
            undoable=of_row(UndoableSeek, undoable[0]) if undoable else None,
            as_of=moment(),
        )


def _version(state: CursorState, beside: CursorDetails) -> str:
    return f"{beside.last_entry or 0}.{'paused' if state.is_paused else 'running'}"


def _beside(ow: Onceward, names: Sequence[str]) -> dict[str, CursorDetails]:
    is_long = len(names) > SPARK_CURSORS_MAX
    most = COUNTED_IN_LONG_MAX if is_long else COUNTED_MAX
    rows = ow.store.read("cursor_details", names=orjson.dumps(names).decode(), most=most)
    return {row[0]: CursorDetails(*row) for row in rows}


def _samples(ow: Onceward, names: Sequence[str]) -> dict[str, tuple[Sample, ...]]:
    count = SPARK_SAMPLES if len(names) <= SCREEN_CURSORS_MAX else SPARK_SAMPLES_IN_LONG
    rows = ow.store.read("sample_recent", names=orjson.dumps(names).decode(), count=count)
    return {
        name: tuple(Sample(*row[1:]) for row in of_one)
        for name, of_one in groupby(rows, key=lambda row: row[0])
    }


def _thinned(ow: Onceward, name: str) -> list[LagSample]:
    """Return the lag samples of the last day, oldest first, thinned out if there are many."""
    rows = ow.store.read("sample_list", name=name, seconds=DAY_SECONDS, limit=SAMPLES_READ_MAX)
    step = -(-len(rows) // SAMPLES_MAX) or 1
    # Counted from the newest, so that the newest is always included.
    return [of_row(LagSample, row) for row in reversed(rows[::step])]
