"""Locking: one orchestrator per workspace and per run, and who is named to the second one.

Kernel locks on files: free as soon as their process is gone, and not inherited by agents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from onceward.errors import Conflict, RunHeld
from onceward.journal.held import Held, hold
from onceward.orchestrator.workspace import Workspace
from onceward.seams import Clock, Files

#: How often a waiting orchestrator asks for the lock.
RETRY_SECONDS: Final = 0.2

#: Called before each pause with the refusal that it waits out; raises to end the wait.
OnWait = Callable[[RunHeld], None]


@contextmanager
def locked(
    workspace: Workspace,
    run_id: str,
    *,
    files: Files,
    clock: Clock,
    on_wait: OnWait | None = None,
) -> Iterator[Callable[[], bool]]:
    """Hold the workspace and one run of it; yields a check whether both locks are still ours.

    Raises RunHeld when another orchestrator works in the workspace. With `on_wait`, waits for the
    lock instead.
    """
    whole = _workspace_lock(workspace, run_id, files, clock, on_wait)
    try:
        run = _run_lock(workspace, run_id, files, clock)
        try:
            yield lambda: whole.is_ours() and run.is_ours()
        finally:
            run.release()
    finally:
        whole.release()


def _workspace_lock(
    workspace: Workspace, run_id: str, files: Files, clock: Clock, on_wait: OnWait | None
) -> Held:
    while True:
        try:
            return hold(workspace.orchestrator_lock(), files, clock, purpose=run_id)
        except Conflict as exc:
            refusal = _refusal(exc, "a run of this workspace")
        if on_wait is None:
            raise refusal
        on_wait(refusal)
        clock.sleep(RETRY_SECONDS)


def _run_lock(workspace: Workspace, run_id: str, files: Files, clock: Clock) -> Held:
    try:
        return hold(workspace.lock(run_id), files, clock)
    except Conflict as exc:
        raise _refusal(exc, run_id) from None


def _refusal(conflict: Conflict, otherwise: str) -> RunHeld:
    """Say which process works on which run, since when, and how to go on."""
    context = conflict.context
    run_id = str(context.get("purpose", otherwise))
    message = (
        f"{run_id} is being worked on by {context['holder']}: "
        "a workspace has one orchestrator at a time"
    )
    pid, since = context.get("pid"), context.get("since")
    return RunHeld(message, holder=context["holder"], run_id=run_id, pid=pid, since=since)
