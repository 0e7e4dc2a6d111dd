"""Verify: whether the files of a run are as it recorded them, and as approved. Changes nothing."""

from __future__ import annotations

from onceward.errors import LedgerDamaged, StorageError
from onceward.orchestrator import approvals, receipts
from onceward.orchestrator.ledger import Ledger
from onceward.orchestrator.models import Finding, Verification
from onceward.orchestrator.replay import RECEIVED, RunState, replay
from onceward.orchestrator.retention import last_run, may_lack_manifests
from onceward.orchestrator.tree import Tree
from onceward.orchestrator.workspace import Workspace, digest, read_sealed
from onceward.seams import Files


def verify_run(ledger: Ledger, workspace: Workspace, tree: Tree, files: Files) -> Verification:
    """Read the ledger, every receipt and manifest, and every artifact that still counts."""
    run_id, read = ledger.path.stem, ledger.read()
    name = str(ledger.path.relative_to(workspace.root))
    findings = [
        Finding(path=f"{name}, byte {each.offset}", problem=each.problem) for each in read.damaged
    ]
    if read.torn_bytes:
        problem = f"ends in {read.torn_bytes} bytes of a record that was never finished"
        findings.append(Finding(path=name, problem=problem))
    try:
        state = replay(read.records)
    except LedgerDamaged as exc:
        findings.append(Finding(path=name, problem=exc.message))
        return Verification(
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
    # Without the last list nobody can tell damage from what later commands made of a file.
    is_told = not may_lack or (state.tree and tree.manifest(state.tree) is not None)
    gone = receipts.damaged(state, workspace, tree, behind=0) if is_told else {}
    found += [Finding(path=path, problem=problem) for path, problem in gone.values()]
    unseen = _unapproved(state, workspace, tree, files)
    problem = "it is not as it was approved"
    told = {path for path, _ in gone.values()}
    found += [Finding(path=each, problem=problem) for each in unseen or () if each not in told]
    return Verification(
        run_id=run_id,
        records=len(read.records),
        receipts=sum(each.state == RECEIVED for each in state.asked),
        artifacts=len(named),
        findings=(*findings, *found),
        is_as_approved=None if unseen is None else not unseen,
    )


def _unapproved(
    state: RunState, workspace: Workspace, tree: Tree, files: Files
) -> list[str] | None:
    """Return the delivered files that nobody approved; None when nothing was delivered.

    The run that was worked on last has delivered what is there now. Of another one the recorded
    tree counts: later runs had to change files.
    """
    approval = approvals.last_approval(state)
    if state.status != "done" or state.delivered is None or approval is None:
        return None
    is_last = last_run(workspace, files) in (None, state.run_id)
    now = tree.files_now() if is_last else tree.manifest(state.delivered)
    return None if now is None else approvals.unapproved(state, approval, tree.manifest, now)


def _receipts(state: RunState, workspace: Workspace, files: Files) -> list[Finding]:
    found = []
    for asked in state.asked:
        if asked.state != RECEIVED or asked.receipt is None:
            continue
        name = asked.receipt["path"]
        try:
            record = read_sealed(workspace.root / name, files)
        except StorageError as exc:
            found.append(Finding(path=name, problem=exc.message))
            continue
        if record is None:
            found.append(Finding(path=name, problem="it does not exist"))
        elif digest(record) != asked.receipt["checksum"]:
            found.append(Finding(path=name, problem="it is not the one that the ledger names"))
    return found


def _manifests(
    state: RunState, workspace: Workspace, files: Files, *, may_lack: bool
) -> list[Finding]:
    found = []
    for snapshot_id in dict.fromkeys(state.pinned.values()):
        path = workspace.manifest(snapshot_id)
        name = str(path.relative_to(workspace.root))
        try:
            if read_sealed(path, files) is None and not may_lack:
                found.append(Finding(path=name, problem="it does not exist"))
        except StorageError as exc:
            found.append(Finding(path=name, problem=exc.message))
    return found
