"""Run pruning: delete cached files that no recent run needs, when a new run starts."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.agents.answer_cache import AnswerCache
from onceward.errors import LedgerDamaged
from onceward.orchestrator import base_files, run_retention
from onceward.orchestrator.ledger import Ledger, LedgerContents
from onceward.orchestrator.ledger_replay import replay
from onceward.orchestrator.task_flow import AGENTS
from onceward.orchestrator.workspace import Workspace
from onceward.system import Clock, Files


def prune(
    workspace: Workspace,
    unfinished: Sequence[tuple[str, LedgerContents]],
    latest: Sequence[str],
    *,
    files: Files,
    clock: Clock,
) -> None:
    """Delete cached answers, archives of base files, and manifests.

    Unfinished runs keep theirs, whatever their age. Finished runs are read only if there are too
    many manifests: then only the latest runs keep theirs.
    """
    existing = run_retention.manifests(workspace, files)
    is_full = len(existing) > run_retention.MANIFESTS_MAX
    names = {run_id for run_id, _ in unfinished}
    reads = [read for _, read in unfinished]
    try:
        if is_full:
            more = [workspace.ledger(each) for each in latest if each not in names]
            reads += [Ledger(each, files=files, clock=clock).read() for each in more]
        states = [replay(read.records) for read in reads]
    except LedgerDamaged:
        return  # What that run needs is unknown.
    open_states = [state for state in states if state.status != "done"]
    keys = {each.key for state in open_states for each in state.commands}
    for agent in AGENTS:
        AnswerCache(workspace.cache(agent), files=files, clock=clock).prune(keys)
    base_snapshots = {
        snapshot for state in open_states for snapshot in state.base_snapshots.values()
    }
    base_files.prune_archives(
        workspace, base_snapshots | {state.run_id for state in open_states}, files
    )
    if is_full:
        run_retention.record_removal(workspace, latest, files)
        kept = run_retention.snapshots_of(states)
        run_retention.remove_manifests(workspace, existing, kept, files)
