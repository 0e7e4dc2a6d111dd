"""Application errors: what the Orchestrator, the Lab, Memory and Dispatch refuse."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.errors.base import Conflict, OncewardError
from onceward.errors.files import StorageError


class RunHeld(Conflict):
    """Another orchestrator works in this workspace; nothing was started. Wait, or stop it."""

    default_fix = "pass --wait to wait for that process, or stop it, then run or resume"


class Drifted(Conflict):
    """Files changed since the run recorded them; keep them, or have their steps done again."""

    default_fix = (
        "pass --accept-drift to keep the files as they are, or --redo to do the steps again whose "
        "files changed; both copy the changed files to state/kept first"
    )


class RunMissing(OncewardError):
    """There is no run with this id in the workspace."""

    code = "NOT_FOUND"
    default_fix = "see `onceward runs list`"


class LedgerDamaged(StorageError):
    """The ledger of a run lacks records that were written; it cannot be resumed safely."""

    retryable = False
    default_fix = "restore it from a backup; `onceward runs verify` names the damage"


class AlreadySubmitted(Conflict):
    """The experiment was decided before; `result` holds what that was answered."""

    default_fix = "make a new experiment to judge again"


class EntityMissing(OncewardError):
    """The memory has no entity of this name; create it first, or correct the name."""

    code = "NOT_FOUND"

    def __init__(self, names: Sequence[str], *, field: str = "", fix: str = "") -> None:
        """Name what is missing, and where it was asked for."""
        #: The names that are not there.
        self.names = tuple(names)
        shown = ", ".join(repr(name[:200]) for name in self.names[:5])
        more = f" and {len(self.names) - 5} more" if len(self.names) > 5 else ""
        context = {"field": field} if field else {}
        super().__init__(
            f"{field + ': ' if field else ''}no entity is named {shown}{more}",
            fix=fix or "create it first, or correct the name",
            names=list(self.names[:100]),
            **context,
        )


class GroupMissing(OncewardError):
    """There is no group of this name; add it first, or correct the name."""

    code = "NOT_FOUND"

    def __init__(self, name: str) -> None:
        """Name it."""
        self.name = name
        fix = f"`onceward dispatch groups add {name} …` adds it, `… groups list` shows all"
        super().__init__(f"no group is named {name[:100]!r}", fix=fix, group=name[:100])
