"""Testing: kill handlers at every line, crash a simulated disk, control time and randomness.

Owns what a test needs to prove that acknowledged work survives. Nothing in the product imports it.
"""

from onceward.system import ManualClock, SeededRandomness
from onceward.testing.crash_everywhere import CrashSummary, crash_everywhere
from onceward.testing.crash_files import CrashFiles
from onceward.testing.crash_loop import Acks, CrashCount, run_with_crash_at_every_step
from onceward.testing.frozen import Frozen
from onceward.testing.history import (
    Entry,
    History,
    check_acked_present,
    check_effects_once,
    check_epochs,
    check_order_per_key,
)
from onceward.testing.idempotence import Idempotence, assert_idempotent
from onceward.testing.sync_audit import Audit, AuditedFiles, AuditEvent
from onceward.testing.trial import Trial
from onceward.testing.worker_runs import drain, worker_process
from onceward.testing.zombie import zombie

__all__ = [
    "Acks",
    "Audit",
    "AuditEvent",
    "AuditedFiles",
    "CrashCount",
    "CrashFiles",
    "CrashSummary",
    "Entry",
    "Frozen",
    "History",
    "Idempotence",
    "ManualClock",
    "SeededRandomness",
    "Trial",
    "assert_idempotent",
    "check_acked_present",
    "check_effects_once",
    "check_epochs",
    "check_order_per_key",
    "crash_everywhere",
    "drain",
    "run_with_crash_at_every_step",
    "worker_process",
    "zombie",
]
