"""Run verification: check that a run's files are as recorded and as approved. Read-only."""

from __future__ import annotations

from onceward.errors import LedgerDamaged, StorageError
from onceward.orchestrator import approvals, receipts
from onceward.orchestrator.ledger import Ledger
from onceward.orchestrator.ledger_replay import RECEIVED, RunState, replay
from onceward.orchestrator.models import RunVerification, VerificationFinding
from onceward.orchestrator.run_retention import last_run, may_lack_manifests
from onceward.orchestrator.workspace import Workspace, digest, read_sealed
from onceward.orchestrator.workspace_tree import WorkspaceTree
from onceward.system import Files


def verify_run(
    ledger: Ledger, workspace: Workspace, tree: WorkspaceTree, files: Files
) -> RunVerification:
    """Check the ledger, all receipts and manifests, and the current artifacts of a run."""
    run_id, read = ledger.path.stem, ledger.read()
    name = str(ledger.path.relative_to(workspace.root))
    findings = [
        VerificationFinding(path=f"{name}, byte {each.offset}", problem=each.problem)
        for each in read.damaged
    ]
    if read.torn_bytes:
        problem = f"ends with {read.torn_bytes} bytes of an incomplete record"
        findings.append(VerificationFinding(path=name, problem=problem))
    try:
        state = replay(read.records)
    except LedgerDamaged as exc:
        findings.append(VerificationFinding(path=name, problem=exc.message))
        return RunVerification(
            run_id=run_id,
            records=len(read.records),
            receipts=0,
            artifacts=0,
            findings=tuple(findings),
        )
    may_lack = state.status == "done" and may_lack_manifests(workspace, run_id, files)
    found = [*_receipts(state, workspace, files)]
    found += _manifests(state, workspace, files, may_lack=may_lack)
    named = list(receipts.latest_artifacts(state))
    # Without the last manifest, damage cannot be distinguished from later commands' changes.
    is_known = not may_lack or (state.tree and tree.manifest(state.tree) is not None)
    to_redo = receipts.steps_to_redo(state, workspace, tree, after_step=0) if is_known else {}
    found += [VerificationFinding(path=path, problem=problem) for path, problem in to_redo.values()]
    unapproved = _unapproved(state, workspace, tree, files)
    if unapproved is None and not may_lack:
        found += _unknown_approval(state, workspace, tree)
    problem = "it differs from the approved content"
    reported = {path for path, _ in to_redo.values()}
    found += [
        VerificationFinding(path=each, problem=problem)
        for each in unapproved or ()
        if each not in reported
    ]
    return RunVerification(
        run_id=run_id,
        records=len(read.records),
        receipts=sum(each.state == RECEIVED for each in state.commands),
        artifacts=len(named),
        findings=(*findings, *found),
        is_as_approved=None if unapproved is None else not unapproved,
    )


def _unapproved(
    state: RunState, workspace: Workspace, tree: WorkspaceTree, files: Files
) -> list[str] | None:
    """Return the delivered files without approval; None if nothing was delivered.

    For the latest run the current files are checked. For earlier runs the recorded tree is checked,
    since later runs may change files.
    """
    approval = approvals.last_approval(state)
    if state.status != "done" or state.delivered_tree is None or approval is None:
        return None
    is_last = last_run(workspace, files) in (None, state.run_id)
    now = tree.files_now() if is_last else tree.manifest(state.delivered_tree)
    if now is None:
        return None
    untracked = receipts.untracked_artifacts(state, workspace, now) if is_last else None
    return approvals.unapproved_paths(state, approval, tree.manifest, now, untracked)


def _unknown_approval(
    state: RunState, workspace: Workspace, tree: WorkspaceTree
) -> list[VerificationFinding]:
    """Return why the delivered files cannot be compared with the approved ones."""
    approval = approvals.last_approval(state)
    if state.status != "done" or state.delivered_tree is None or approval is None:
        return []
    needed = {*approval.trees, state.delivered_tree} if approval.trees else set()
    missing = [workspace.manifest(each) for each in sorted(needed) if tree.manifest(each) is None]
    paths = missing or [workspace.ledger(state.run_id)]
    problem = "without it the delivered files cannot be compared with the approved ones"
    if not missing:
        problem = "it does not say which files were approved"
    return [
        VerificationFinding(path=str(path.relative_to(workspace.root)), problem=problem)
        for path in paths
    ]


def _receipts(state: RunState, workspace: Workspace, files: Files) -> list[VerificationFinding]:
    found = []
    for command in state.commands:
        if command.state != RECEIVED or command.receipt is None:
            continue
        name = command.receipt["path"]
        try:
            record = read_sealed(workspace.root / name, files)
        except StorageError as exc:
            found.append(VerificationFinding(path=name, problem=exc.message))
            continue
        if record is None:
            found.append(VerificationFinding(path=name, problem="it does not exist"))
        elif digest(record) != command.receipt["checksum"]:
            found.append(
                VerificationFinding(path=name, problem="its checksum differs from the ledger's")
            )
    return found


def _manifests(
    state: RunState, workspace: Workspace, files: Files, *, may_lack: bool
) -> list[VerificationFinding]:
    found = []
    for snapshot_id in dict.fromkeys(state.pinned.values()):
        path = workspace.manifest(snapshot_id)
        name = str(path.relative_to(workspace.root))
        try:
            if read_sealed(path, files) is None and not may_lack:
                found.append(VerificationFinding(path=name, problem="it does not exist"))
        except StorageError as exc:
            found.append(VerificationFinding(path=name, problem=exc.message))
    return found
