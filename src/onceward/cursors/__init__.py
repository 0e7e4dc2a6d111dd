"""Cursors: store durable positions of consumers, each leased to one worker at a time."""

from onceward.cursors.cursors import Cursors as Cursors
from onceward.cursors.dual import DualCursor as DualCursor
from onceward.cursors.dual_models import DualBatch as DualBatch
from onceward.cursors.dual_models import EndedBatch as EndedBatch
from onceward.cursors.dual_models import PendingRange as PendingRange
from onceward.cursors.heartbeat import LeaseHeartbeat as LeaseHeartbeat
from onceward.cursors.lease import Lease as Lease
from onceward.cursors.models import CursorState as CursorState
from onceward.cursors.models import Epoch as Epoch
from onceward.cursors.models import HistoryEntry as HistoryEntry
from onceward.cursors.models import Move as Move
from onceward.cursors.models import Renewal as Renewal

__all__ = [
    "CursorState",
    "Cursors",
    "DualBatch",
    "DualCursor",
    "EndedBatch",
    "Epoch",
    "HistoryEntry",
    "Lease",
    "LeaseHeartbeat",
    "Move",
    "PendingRange",
    "Renewal",
]
