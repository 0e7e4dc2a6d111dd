"""Approvals: which content a review approved, and whether the files are still that content.

Owns `previous`, the digest of what a command follows and reviews. Pure; knows no file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

from onceward.journal import Record
from onceward.keys import canonical_json
from onceward.orchestrator.replay import RECEIVED, Asked, RunState

#: The files of a tree: checksum and size by path.
Manifest = Mapping[str, tuple[str, int]]


def previous(state: RunState, before: Sequence[Asked]) -> str:
    """Return the digest of the answers that a command follows and reviews.

    `before` holds the earlier commands of its task. The last one is followed; all builds are
    reviewed. A build that is done again with another result gives another digest.
    """
    builds = [each for each in before if state.flow[each.stage].makes_outputs]
    digests = {
        "follows": digest(before[-1]),
        "reviews": [digest(each) for each in builds if each.state == RECEIVED],
    }
    return hashlib.sha256(canonical_json(digests)).hexdigest()


def digest(asked: Asked) -> str:
    """Return what an answer said, without ids and times: the same whenever it is said again."""
    if asked.event is None:
        failure = asked.failure or {}
        said: Record = {"code": failure.get("code"), "message": failure.get("message")}
    else:
        found = asked.event.get("artifacts") or []
        said = {
            "status": asked.event.get("status"),
            "payload": asked.event["payload"],
            "artifacts": sorted(
                ({"path": each["path"], "sha256": each["sha256"]} for each in found),
                key=lambda each: each["path"],
            ),
        }
    return hashlib.sha256(canonical_json(said)).hexdigest()


def approval_of(state: RunState, task_id: str) -> Asked | None:
    """Return the last approval of a task that still counts."""
    found = [each for each in state.of_task(task_id) if _approves(state, each)]
    return found[-1] if found else None


def last_approval(state: RunState) -> Asked | None:
    """Return the latest approval of the run that still counts, of whichever task."""
    found = [each for each in state.asked if _approves(state, each)]
    return max(found, key=_received, default=None)


def outdated(state: RunState) -> Asked | None:
    """Return an approval whose build was done again since, with another result."""
    for task in state.tasks:
        approval = approval_of(state, task.id)
        if approval is None:
            continue
        before = [each for each in state.of_task(task.id) if each.step < approval.step]
        if approval.command["inputs"].get("previous") != previous(state, before):
            return approval
    return None


def unapproved(
    state: RunState, approval: Asked, files_of: Callable[[str], Manifest | None], now: Manifest
) -> list[str] | None:
    """Return the paths whose content an approval has not seen; None when that cannot be told.

    A review approves the files as they were when its agent got it. Got in several states, it may
    have approved any of them. What later answers name that neither build nor approve, such as a
    specification, is theirs, unless a build had made it.
    """
    theirs = _named_since(state, approval)
    found: set[str] = set()
    for tree in approval.trees:
        approved = files_of(tree)
        if approved is None:
            return None
        changed = [path for path in {**approved, **now} if approved.get(path) != now.get(path)]
        found |= {path for path in changed if path not in theirs or now.get(path) != theirs[path]}
    return sorted(found) if approval.trees else None


def _named_since(state: RunState, approval: Asked) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    built: set[str] = set()
    for asked in sorted((each for each in state.asked if each.receipt is not None), key=_received):
        named = (asked.event or {}).get("artifacts") or []
        if state.flow[asked.stage].makes_outputs:
            built |= {each["path"] for each in named}
        elif _received(asked) >= _received(approval):
            found |= {each["path"]: (each["sha256"], each["size"]) for each in named}
    return {path: content for path, content in found.items() if path not in built}


def _approves(state: RunState, asked: Asked) -> bool:
    is_approving = state.flow[asked.stage].approves and asked.state == RECEIVED
    return is_approving and not asked.is_withdrawn and _status(asked) == "approved"


def _status(asked: Asked) -> str | None:
    status: str | None = (asked.event or {}).get("status")
    return status


def _received(asked: Asked) -> int:
    assert asked.receipt is not None, asked
    number: int = asked.receipt["seq"]
    return number
