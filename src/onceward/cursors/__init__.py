"""Onward: how far a reader has come, who holds it, and whether it may move."""

from onceward.cursors.cursors import Cursors as Cursors
from onceward.cursors.dual import DualCursor as DualCursor
from onceward.cursors.dual_models import Batch as Batch
from onceward.cursors.dual_models import Ended as Ended
from onceward.cursors.dual_models import Pending as Pending
from onceward.cursors.heartbeat import Heartbeat as Heartbeat
from onceward.cursors.lease import Lease as Lease
from onceward.cursors.models import CursorState as CursorState
from onceward.cursors.models import Epoch as Epoch
from onceward.cursors.models import HistoryEntry as HistoryEntry
from onceward.cursors.models import Move as Move
from onceward.cursors.models import Renewal as Renewal

__all__ = [
    "Batch",
    "CursorState",
    "Cursors",
    "DualCursor",
    "Ended",
    "Epoch",
    "Heartbeat",
    "HistoryEntry",
    "Lease",
    "Move",
    "Pending",
    "Renewal",
]
