"""Approvals: which content a review approved, and whether the files still have that content.

Computes the input `previous`, the digest of the answers that a command follows and reviews. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import product

from onceward.journal import Record
from onceward.keys import canonical_json
from onceward.orchestrator.ledger_replay import RECEIVED, CommandState, RunState

#: The files of a tree: checksum and size by path.
Manifest = Mapping[str, tuple[str, int]]


def previous_digest(state: RunState, before: Sequence[CommandState]) -> str:
    """Return the digest of the answers that a command follows and reviews.

    `before` holds the earlier commands of its task: the last one is followed, all builds are
    reviewed. A build that is redone with a different result gives a different digest.
    """
    builds = [each for each in before if state.flow[each.stage].makes_outputs]
    digests = {
        "follows": answer_digest(before[-1]),
        "reviews": [answer_digest(each) for each in builds if each.state == RECEIVED],
    }
    return hashlib.sha256(canonical_json(digests)).hexdigest()


def answer_digest(command: CommandState) -> str:
    """Return the digest of an answer without ids and times: equal for equal answers."""
    if command.event is None:
        failure = command.failure or {}
        content: Record = {"code": failure.get("code"), "message": failure.get("message")}
    else:
        found = command.event.get("artifacts") or []
        content = {
            "status": command.event.get("status"),
            "payload": command.event["payload"],
            "artifacts": sorted(
                ({"path": each["path"], "sha256": each["sha256"]} for each in found),
                key=lambda each: each["path"],
            ),
        }
    return hashlib.sha256(canonical_json(content)).hexdigest()


def approval_of(state: RunState, task_id: str) -> CommandState | None:
    """Return the last approval of a task that is not withdrawn."""
    found = [each for each in state.of_task(task_id) if _approves(state, each)]
    return found[-1] if found else None


def last_approval(state: RunState) -> CommandState | None:
    """Return the latest approval of any task that is not withdrawn."""
    found = [each for each in state.commands if _approves(state, each)]
    return max(found, key=_receipt_seq, default=None)


def outdated_approval(state: RunState) -> CommandState | None:
    """Return an approval whose build was redone since with a different result, or None."""
    for task in state.tasks:
        approval = approval_of(state, task.id)
        if approval is None:
            continue
        before = [each for each in state.of_task(task.id) if each.step < approval.step]
        if approval.message["inputs"].get("previous") != previous_digest(state, before):
            return approval
    return None


def unapproved_paths(
    state: RunState,
    approval: CommandState,
    files_of: Callable[[str], Manifest | None],
    now: Manifest,
    untracked: Manifest | None = None,
) -> list[str] | None:
    """Return the paths whose content an approval does not cover; None if that is unknown.

    A review approves the files as they were when its command was sent. Sent in several states, it
    may have approved any of them. Files declared by this and later answers that are not builds,
    such as a specification, need no approval, unless a build had made them. `untracked` are the
    artifacts that snapshots leave out; None if unknown.
    """
    theirs = _named_since(state, approval, files_of)
    found: set[str] = set()
    for tree, beside in product(approval.trees, approval.untracked):
        approved, present = files_of(tree), now
        if approved is None:
            return None
        if beside is not None and untracked is not None:
            approved, present = {**approved, **beside}, {**now, **untracked}
        for path in {**approved, **present}:
            is_theirs = path in theirs and present.get(path) == theirs[path]
            if approved.get(path) != present.get(path) and not is_theirs:
                found.add(path)
    return sorted(found) if approval.trees else None


def declared_files(state: RunState, command: CommandState) -> Manifest:
    """Return the files that an answer declares as its agent's work, with their content.

    Changes that a build only observed are backed up before the next build, if there is one.
    """
    is_build = state.flow[command.stage].makes_outputs
    return _named_files(command) if is_build or not command.is_observed else {}


def _named_files(command: CommandState) -> dict[str, tuple[str, int]]:
    found = (command.event or {}).get("artifacts") or []
    return {each["path"]: (each["sha256"], each["size"]) for each in found}


def _named_since(
    state: RunState, approval: CommandState, files_of: Callable[[str], Manifest | None]
) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    built: set[str] = set()
    made: set[str] = set()
    for command in sorted(
        (each for each in state.commands if each.receipt is not None), key=_receipt_seq
    ):
        named = _named_files(command)
        if state.flow[command.stage].makes_outputs:
            built |= set(named)
            continue
        if command.is_observed:
            # A change made while a program ran is its own only if it created the file.
            existing = {path for tree in command.trees for path in files_of(tree) or ()}
            made |= set(named) - existing
            named = {path: file for path, file in named.items() if path in made}
        if _receipt_seq(command) >= _receipt_seq(approval):
            found |= named
    return {path: content for path, content in found.items() if path not in built}


def _approves(state: RunState, command: CommandState) -> bool:
    is_approving = state.flow[command.stage].approves and command.state == RECEIVED
    return is_approving and not command.is_withdrawn and _status(command) == "approved"


def _status(command: CommandState) -> str | None:
    status: str | None = (command.event or {}).get("status")
    return status


def _receipt_seq(command: CommandState) -> int:
    assert command.receipt is not None, command
    number: int = command.receipt["seq"]
    return number
