"""Run locks: one orchestrator per workspace and per run; others get an error naming the holder.

File locks of the kernel: released when their process ends, and not inherited by agents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from onceward.agents.orphan_processes import (
    AgentRecord,
    is_agent_lock_held,
    is_certainly_gone,
)
from onceward.agents.program_lock import end_orphaned_program
from onceward.agents.protocol import AGENT_TYPES
from onceward.errors import Conflict, RunHeld
from onceward.journal.process_lock import HeldProcessLock, acquire_process_lock
from onceward.orchestrator.ledger import LedgerContents
from onceward.orchestrator.ledger_replay import running_agents
from onceward.orchestrator.workspace import Workspace
from onceward.system import Clock, Files

#: How often a waiting orchestrator tries to get the lock.
RETRY_SECONDS: Final = 0.2

#: Called before each pause with the RunHeld error; may raise it to stop waiting.
OnWait = Callable[[RunHeld], None]


@contextmanager
def locked(
    workspace: Workspace,
    choose: Callable[[], str],
    *,
    files: Files,
    clock: Clock,
    on_wait: OnWait | None = None,
) -> Iterator[tuple[str, Callable[[], bool]]]:
    """Lock the workspace and a run; yields the run id and a check that both locks are still held.

    `choose` returns the run id. It is called with the workspace locked, since others may have
    started runs before. Raises RunHeld if another orchestrator works in the workspace; with
    `on_wait`, waits for the lock instead.
    """
    run_id = ""

    def chosen() -> str:
        nonlocal run_id
        run_id = choose()
        return run_id

    workspace_lock = _workspace_lock(workspace, chosen, files, clock, on_wait)
    try:
        run_lock = _run_lock(workspace, run_id, files, clock)
        try:
            yield run_id, lambda: workspace_lock.is_ours() and run_lock.is_ours()
        finally:
            run_lock.release()
    finally:
        workspace_lock.release()


def agents_without_exit(
    ledgers: Iterable[tuple[str, LedgerContents]],
) -> list[AgentRecord | None]:
    """Return the agents of these runs whose end is not recorded."""
    return [
        AgentRecord.from_fields(record, run_id)
        for run_id, read in ledgers
        for record in running_agents(read.records)
    ]


def end_orphaned_programs(workspace: Workspace, clock: Clock) -> None:
    """End programs whose agents were killed; raise AgentFailed if one does not end."""
    for agent in AGENT_TYPES:
        end_orphaned_program(workspace.program_lock(agent), clock=clock)


def wait_for_foreign_agents(
    agents: Iterable[AgentRecord | None], workspace: Workspace, clock: Clock, on_wait: OnWait | None
) -> None:
    """Raise RunHeld while one of these agents runs unseen from here, or wait for its end.

    In another pid namespace, or where /proc does not show it, it cannot be killed safely; the lock
    that it holds tells.
    """
    for agent in agents:
        if agent is None or is_certainly_gone(agent):
            continue
        place = "in another container" if not agent.is_in_this_namespace() else "unseen in /proc"
        assert agent.run_id is not None, agent
        while is_agent_lock_held(workspace.agents_lock(agent.run_id)):
            message = (
                f"{agent.run_id}: its orchestrator has ended, but its agent still runs {place}, "
                f"as process {agent.pid} on {agent.host}; nothing was started"
            )
            fix = "end that process or its container, or pass --wait"
            error = RunHeld(message, fix=fix, run_id=agent.run_id, pid=agent.pid)
            if on_wait is None:
                raise error
            on_wait(error)
            clock.sleep(RETRY_SECONDS)


def _workspace_lock(
    workspace: Workspace,
    choose: Callable[[], str],
    files: Files,
    clock: Clock,
    on_wait: OnWait | None,
) -> HeldProcessLock:
    while True:
        try:
            return acquire_process_lock(workspace.orchestrator_lock(), files, clock, purpose=choose)
        except Conflict as exc:
            error = _held_error(exc, "a run of this workspace")
        if on_wait is None:
            raise error
        on_wait(error)
        clock.sleep(RETRY_SECONDS)


def _run_lock(workspace: Workspace, run_id: str, files: Files, clock: Clock) -> HeldProcessLock:
    try:
        return acquire_process_lock(workspace.lock(run_id), files, clock)
    except Conflict as exc:
        raise _held_error(exc, run_id) from None


def _held_error(conflict: Conflict, unknown_run: str) -> RunHeld:
    """Return the error that names the process that holds the lock, its run and its start."""
    context = conflict.context
    run_id = str(context.get("purpose", unknown_run))
    message = (
        f"{run_id} is being worked on by {context['holder']}: "
        "a workspace has one orchestrator at a time; nothing was started"
    )
    pid, since = context.get("pid"), context.get("since")
    return RunHeld(message, holder=context["holder"], run_id=run_id, pid=pid, since=since)
