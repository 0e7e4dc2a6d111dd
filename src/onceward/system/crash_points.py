"""Crash points: named places where a test can kill, freeze or fail a process.

Owns the registry and the switch. A point costs one comparison until it is armed, by the
environment (`ONCEWARD_CRASH="name:nth[:kill|stop|raise]"`) or `arm()`; then it acts, at its nth
pass.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Final

from onceward.errors import InvalidArgument

#: Every crash point, with the two states it separates. A name used but not listed fails the tests.
POINTS: Final[dict[str, str]] = {
    "journal.append.before_write": "lock taken | nothing written",
    "journal.append.after_write": "record written, lock held | not yet synced",
    "journal.append.after_unlock": "lock released | not yet synced",
    "journal.append.before_return": "record and name durable | not yet acknowledged",
    "journal.durable.after_sync": "content synced | the file's name not yet synced",
    "journal.read.before_sync": "page read | not yet known to be on disk",
    "journal.read.before_return": "page known to be on disk | cursor not yet returned",
    "atomic.write.after_open": "temporary exists and is locked | its old content not yet removed",
    "atomic.write.after_write": "temporary written | not synced",
    "atomic.write.after_sync": "temporary synced | target still the old file",
    "atomic.write.after_rename": "target is the new file | its name not synced",
    "atomic.write.before_return": "new file and name durable | not yet acknowledged",
    "lab.import.before_append": "directory inspected, lock held | no run recorded",
    "lab.import.after_append": "run recorded and durable | its id not yet returned",
    "lab.experiment.after_append": "experiment recorded and durable | its id not yet returned",
    "lab.request.before_intent": "request checked, lock held | intent not logged, nothing written",
    "lab.request.after_intent": "intent logged and durable | no entry written",
    "lab.request.after_entries": "entries durable | the experiment not yet decided",
    "lab.request.after_experiment": "entries and decision durable | the request not marked as done",
    "lab.request.after_done": "request marked as done | response not yet sent",
    "lab.request.before_roll_forward": "an unfinished request found | nothing of it rolled forward",
    "lab.client.before_save": "an agent has processed an entry | its cursor still before it",
    "lab.client.after_save": "cursor after the entry, durable | the next entry not yet returned",
    "agents.cache.before_store": "work done, artifacts durable | its result not stored",
    "agents.cache.after_store": "result stored and durable | response not yet sent",
    "agents.send.before_write": "agent running and recorded | nothing of the command sent",
    "agents.send.after_write": "command sent | no response yet",
    "orchestrator.run.after_start": "run recorded with its tasks | no task started",
    "orchestrator.task.before_pin": "snapshot taken, manifest stored | the task not pinned to it",
    "orchestrator.task.after_pin": "task pinned to its snapshot | its first command not recorded",
    "orchestrator.task.after_complete": "task recorded as complete | the next one not started",
    "orchestrator.run.before_complete": "all tasks complete | the run not yet recorded as done",
    "orchestrator.base.after_write": "files stored for later diffs | first command not recorded",
    "orchestrator.command.before_record": "next command computed | not recorded",
    "orchestrator.command.after_record": "command recorded | not sent",
    "orchestrator.send.before_call": "send recorded | the agent has not got the command",
    "orchestrator.answer.before_record": "agent answered | the answer not recorded",
    "orchestrator.answer.after_record": "answer recorded | not checked, no receipt",
    "orchestrator.receipt.before_file": "answer checked, tree inspected | no receipt",
    "orchestrator.receipt.after_file": "receipt written | not recorded",
    "orchestrator.receipt.after_record": "receipt recorded | the next step not decided",
    "orchestrator.backup.before_rename": "changed files copied and synced | the copy not yet named",
    "orchestrator.backup.after_rename": "files backed up | not recorded, nothing overwritten",
    "orchestrator.cache.after_write": "state of the run cached | the next step not started",
    "orchestrator.resume.after_truncate": "torn end of the ledger truncated | nothing else done",
    "orchestrator.resume.after_orphans": "agents of earlier runs ended | nothing else done",
    "orchestrator.resume.after_record": "resume recorded | steps to redo not recorded",
    "migrate.after_one": "one migration applied and recorded | the following ones not yet",
    "transaction.before_commit": "the user's block has ended | nothing of it committed",
    "transaction.after_commit": "transaction durable | not yet acknowledged",
    "sqlite.group.before_commit": "operations of several threads run | none of them committed",
    "sqlite.group.after_commit": "operations of several threads durable | none acknowledged",
    "cursor.acquire.after_commit": "lease granted and durable | the worker does not know",
    "cursor.renew.after_commit": "lease renewed and durable | the worker does not know",
    "cursor.checkpoint.after_commit": "position and lease durable | the worker does not know",
    "cursor.release.before_commit": "work done | lease still held",
    "cursor.seek.after_move": "position moved, owner gone | not yet recorded, not committed",
    "cursor.pause.after_change": "paused or resumed | not yet recorded, not committed",
    "cursor.migrate.after_rewrite": "position migrated | not yet recorded, not committed",
    "outcome.claim.before_commit": "key found free | not claimed",
    "outcome.claim.after_commit": "claim durable | the function has not begun",
    "outcome.renew.after_commit": "lease renewed and durable | the function still runs",
    "outcome.run.after_effect": "the function has returned | its claim still running",
    "outcome.finish.before_commit": "result known | not recorded",
    "outcome.finish.after_commit": "result durable | not yet returned to the caller",
    "outcome.fail.before_commit": "the function has failed | failure not recorded",
    "outcome.fail.after_commit": "failure durable, or key freed | not yet raised to the caller",
    "outcome.mark_ambiguous.after_commit": "ambiguity durable | not yet raised to the caller",
    "outcome.claim_in.after_find": "key free, in a transaction | the function has not begun",
    "outcome.finish_in.before_commit": "effects and result in a transaction | not committed",
    "outcome.fail_after.after_commit": "effects undone, failure durable | not yet raised",
    "outcome.reconcile.after_commit": "decision durable | not yet acknowledged",
    "outcome.forget.after_commit": "key freed | not yet acknowledged",
    "outcome.prune.after_batch": "some results or tombstones deleted | the others not yet",
    "effect.intend.after_commit": "intent durable | the step has not begun",
    "effect.run.after_effect": "the step has happened | only its intent is recorded",
    "effect.settle.after_commit": "the step's result durable | its function continues",
    "worker.handle.after_effect": "a handler without tx has returned | its cursor has not moved",
    "worker.fail.before_record": "a handler has failed, its effects undone | not yet recorded",
    "alerts.fire.after_commit": "an alert has fired and is durable | not yet sent",
    "alerts.send.after_send": "an alert was sent | not yet recorded as sent",
    "retries.attempt.after_write": "attempt and due time written | not yet committed",
    "retries.attempt.before_dead": "attempts deleted | not yet a dead letter",
    "retries.park.after_insert": "message parked | cursor not yet moved past it",
    "retries.succeed.after_remove": "head removed | the next of its key not yet head",
    "retries.fail.after_reschedule": "head rescheduled | not yet committed",
    "retries.fail.before_dead": "head removed, the next freed | not yet a dead letter",
    "retries.discard.before_remove": "cursor moved and recorded | parked messages not yet removed",
    "retries.restore.after_insert": "discarded messages parked again | their keys without a head",
    "retries.discard.after_remove": "parked rows removed | their keys without a head",
    "dead.redrive.after_change": "letter redriven | its message not yet parked",
    "dead.redrive.after_park": "message parked again | its key's head not yet decided",
    "dead.drop.after_change": "letter dropped | not yet committed",
    "memory.write.after_entities": "entities written | their observations not yet, none committed",
    "memory.write.after_observations": "observations written | relations and words not yet",
    "memory.write.before_commit": "a batch written | not yet committed",
    "memory.write.after_commit": "a batch durable | not yet acknowledged",
    "memory.remove.after_parts": "relations and observations deleted | entities not yet",
    "memory.remove.before_commit": "a removal written | not yet committed",
    "memory.remove.after_commit": "a removal durable | not yet acknowledged",
    "memory.restore.before_commit": "a restoration written | not yet committed",
    "memory.restore.after_commit": "a restoration durable | not yet acknowledged",
    "dispatch.receive.before_commit": "a message written | not yet committed",
    "dispatch.receive.after_commit": "a message durable | not yet acknowledged to its channel",
    "dispatch.begin.before_commit": "a delivery written | not yet committed",
    "dispatch.begin.after_commit": "messages in flight | no agent has them yet",
    "dispatch.agent.after_start": "an agent runs | its process not yet recorded",
    "dispatch.extend.after_commit": "follow-up messages in flight | not yet sent to the agent",
    "dispatch.reply.before_commit": "a reply written | not yet committed",
    "dispatch.reply.after_commit": "a reply durable | not yet sent",
    "dispatch.send.after_mark": "a reply marked as being sent | not yet sent to the channel",
    "dispatch.send.after_send": "a reply sent to the channel | not yet recorded",
    "dispatch.done.before_commit": "a delivery succeeded | not yet committed",
    "dispatch.done.after_commit": "a delivery durably done | its agent still runs",
    "dispatch.fail.before_commit": "a failure decided | not yet committed",
    "dispatch.fail.after_commit": "a failure durable | the group not yet queued again",
    "dispatch.recover.before_commit": "a crashed delivery rolled back | not yet committed",
    "dispatch.fail.after_letter": "dead letter written | the group's failures not yet reset",
    "dispatch.redrive.after_change": "chat letter redriven | its messages not yet pending",
    "dispatch.redrive.before_commit": "messages of a chat letter pending again | not yet committed",
    "console.action.before_audit": "an action of the console done | neither recorded nor settled",
    "dual.sequence.after_draw": "arrival number drawn | message not yet committed",
    "dual.read.after_move": "read cursor moved | not yet committed",
    "dual.advance.after_batch": "batch recorded as in flight | processed cursor not yet moved",
    "dual.output.after_mark": "output marked as sent | not yet committed",
    "dual.commit.after_end": "batch ended | not yet committed",
    "dual.rollback.after_move": "processed cursor moved back | batch still in flight",
}
ACTIONS: Final = ("kill", "stop", "raise")


class Crashed(BaseException):
    """Raised by a point armed with `raise`; no `except Exception` swallows it."""


class _ArmedPoint:
    """One armed point, counting its passes."""

    def __init__(self, spec: str) -> None:
        name, _, rest = spec.partition(":")
        nth, _, action = rest.partition(":")
        self.name, self.action = name, action or "kill"
        if name not in POINTS:
            message = f"no crash point is named {name!r:.100}; none was armed"
            raise InvalidArgument(message, fix="name one of onceward.system.crash_points.POINTS")
        if not (nth.isascii() and nth.isdigit() and int(nth) > 0) or self.action not in ACTIONS:
            message = f"{spec!r:.100} is not a crash point with the number of a pass"
            fix = f"write name:nth[:{'|'.join(ACTIONS)}], such as {name}:1"
            raise InvalidArgument(message, fix=fix)
        self.left = int(nth)

    def passed(self, name: str) -> None:
        if name != self.name:
            return
        self.left -= 1
        if self.left:
            return
        if self.action == "raise":
            raise Crashed(name)
        if self.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        # To this thread: a stop of the process lets it run on until another thread has seen it.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


_armed: _ArmedPoint | _Observer | None = None


def arm(spec: str | None) -> None:
    """Arm one point of this process, or none; children made by fork inherit it."""
    global _armed  # noqa: PLW0603 - one process has one switch
    _armed = _ArmedPoint(spec) if spec else None


class _Observer:
    """Calls an observer at every crash point."""

    def __init__(self, call: Callable[[str], None]) -> None:
        self.passed = call


def watch(call: Callable[[str], None] | None) -> None:
    """Call this at every point of this process, so that a simulation can decide what to do."""
    global _armed  # noqa: PLW0603 - one process has one switch
    _armed = _Observer(call) if call else None


def crash_point(name: str) -> None:
    """Mark a place between two states that a crash may separate."""
    if _armed is not None:
        _armed.passed(name)


arm(os.environ.get("ONCEWARD_CRASH"))
