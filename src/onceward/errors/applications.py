"""Application errors: errors of the Orchestrator, the Lab, Memory and Dispatch."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.errors.base import Conflict, OncewardError
from onceward.errors.files import StorageError


class RunHeld(Conflict):
    """Another orchestrator is running in this workspace. Nothing was started."""

    code = "RUN_LOCKED"
    default_fix = "pass --wait to wait for that process, or stop it and run the command again"


class Drifted(Conflict):
    """Files have changed since the run recorded them. Nothing was started."""

    code = "FILES_CHANGED"
    default_fix = (
        "pass --accept-drift to keep the changed files, or --redo to repeat the steps that wrote "
        "them; both copy the changed files to state/kept first"
    )


class RunMissing(OncewardError):
    """The workspace has no run with this id."""

    code = "RUN_NOT_FOUND"
    default_fix = "see `onceward runs list`"


class LedgerDamaged(StorageError):
    """The ledger of a run has lost records. The run was not resumed, since that is not safe."""

    code = "LEDGER_DAMAGED"
    retryable = False
    default_fix = "restore it from a backup; `onceward runs verify` shows the damage"


class AlreadySubmitted(Conflict):
    """The experiment has already been decided; `result` has the recorded answer."""

    code = "ALREADY_SUBMITTED"
    default_fix = "create a new experiment to judge again"


class EntityMissing(OncewardError):
    """The memory has no entity of this name."""

    code = "ENTITY_NOT_FOUND"

    def __init__(self, names: Sequence[str], *, field: str = "", fix: str = "") -> None:
        """Set the missing names, and the field that contained them."""
        #: The missing names.
        self.names = tuple(names)
        shown = ", ".join(repr(name[:200]) for name in self.names[:5])
        more = f" and {len(self.names) - 5} more" if len(self.names) > 5 else ""
        context = {"field": field} if field else {}
        super().__init__(
            f"{field + ': ' if field else ''}no entity is named {shown}{more}",
            fix=fix
            or f"create {'it' if len(self.names) == 1 else 'them'} first, or correct the name",
            names=list(self.names[:100]),
            **context,
        )


class GroupMissing(OncewardError):
    """There is no group of this name."""

    code = "GROUP_NOT_FOUND"

    def __init__(self, name: str) -> None:
        """Set the name of the group."""
        self.name = name
        fix = (
            f"add it: `onceward dispatch groups add {name[:100]} …`, or pass one that `onceward "
            "dispatch groups list` shows"
        )
        super().__init__(f"no group is named {name[:100]!r}", fix=fix, group=name[:100])
