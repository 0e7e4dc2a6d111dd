"""Pruning: drops what no recent run of a workspace needs, when a new run begins."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.agents.cache import ResultCache
from onceward.errors import LedgerDamaged
from onceward.orchestrator import base_files, retention
from onceward.orchestrator.flow import AGENTS
from onceward.orchestrator.ledger import Ledger, Read
from onceward.orchestrator.replay import replay
from onceward.orchestrator.workspace import Workspace
from onceward.seams import Clock, Files


def prune(
    workspace: Workspace,
    unfinished: Sequence[tuple[str, Read]],
    latest: Sequence[str],
    *,
    files: Files,
    clock: Clock,
) -> None:
    """Drop kept results of agents, archives of base files, and lists of files.

    An unfinished run keeps all of it, however old it is. Finished ones are read only when there are
    too many lists: the latest of them keep theirs.
    """
    there = retention.manifests(workspace, files)
    is_full = len(there) > retention.MANIFESTS_MAX
    names = {run_id for run_id, _ in unfinished}
    reads = [read for _, read in unfinished]
    try:
        if is_full:
            more = [workspace.ledger(each) for each in latest if each not in names]
            reads += [Ledger(each, files=files, clock=clock).read() for each in more]
        states = [replay(read.records) for read in reads]
    except LedgerDamaged:
        return  # What that run still needs is not known.
    open_states = [state for state in states if state.status != "done"]
    keys = {each.key for state in open_states for each in state.asked}
    for agent in AGENTS:
        ResultCache(workspace.cache(agent), files=files, clock=clock).prune(keys)
    pinned = {snapshot for state in open_states for snapshot in state.pinned.values()}
    base_files.prune(workspace, pinned, files)
    if is_full:
        retention.note_removal(workspace, latest, files)
        kept = retention.snapshots_of(states)
        retention.remove_manifests(workspace, there, kept, files)
