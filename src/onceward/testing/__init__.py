"""Testing: a disk that can crash, an audit of promises, and time and chance under control.

Owns what a test needs to prove that acknowledged work survives. Nothing in the product imports it.
"""

from onceward.seams import ManualClock, SeededRandomness
from onceward.testing.audit import Audit, AuditedFiles, Event
from onceward.testing.crash_files import CrashFiles
from onceward.testing.crash_loop import Acks, CrashCount, run_with_crash_at_every_step
from onceward.testing.history import (
    Entry,
    History,
    check_acked_present,
    check_effects_once,
    check_epochs,
    check_order_per_key,
)
from onceward.testing.zombie import zombie

__all__ = [
    "Acks",
    "Audit",
    "AuditedFiles",
    "CrashCount",
    "CrashFiles",
    "Entry",
    "Event",
    "History",
    "ManualClock",
    "SeededRandomness",
    "check_acked_present",
    "check_effects_once",
    "check_epochs",
    "check_order_per_key",
    "run_with_crash_at_every_step",
    "zombie",
]
