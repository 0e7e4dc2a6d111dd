"""Lab paths: the files and directories of the Lab, and safe session ids. Reads no file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceward.errors import InvalidArgument, WrongPath

FEEDBACK_VARIABLE: Final = "CM_FEEDBACK_STORE_PATH"
ROOT_VARIABLE: Final = "CM_LAB_ROOT"
#: A session id is the name of a directory: no dots, no slashes.
_SESSION_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class LabPaths:
    """The files and directories of one Lab."""

    #: Directory of runs, experiments, sessions and exports.
    root: Path
    #: The feedback file, which other tools read and append to as well.
    feedback: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> LabPaths:
        """Return the paths of the environment variables, or those below the home directory."""
        named = os.environ if environment is None else environment
        home = Path("~/.cm").expanduser()
        return cls(
            root=_path_from(named.get(ROOT_VARIABLE), home / "lab"),
            feedback=_path_from(named.get(FEEDBACK_VARIABLE), home / "feedback" / "feedback.jsonl"),
        )

    @property
    def lock(self) -> Path:
        """Return the lock file that serializes changes to the root."""
        return self.root / "lock"

    @property
    def runs(self) -> Path:
        """Return the journal of imported runs."""
        return self.root / "runs.jsonl"

    @property
    def experiments(self) -> Path:
        """Return the journal of experiments."""
        return self.root / "experiments.jsonl"

    @property
    def exports(self) -> Path:
        """Return the directory of exports."""
        return self.root / "exports"

    @property
    def sessions(self) -> Path:
        """Return the directory that holds one directory per session."""
        return self.root / "sessions"

    def session(self, session_id: str) -> Path:
        """Return a session's directory; an unsafe id or a link is an error."""
        check_session_id(session_id)
        found = self.sessions / session_id
        for link in (self.sessions, found):
            if link.is_symlink():
                message = f"sessionId: {session_id} is not used, since {link} is a link"
                fix = f"replace the link {link} by a directory"
                raise InvalidArgument(message, fix=fix, field="sessionId")
        return found

    def is_session(self, name: str) -> bool:
        """Return whether a name in the sessions directory can be a session."""
        directory = self.sessions / name
        return bool(_SESSION_ID.fullmatch(name)) and not (
            directory.is_symlink() or directory.is_file()
        )

    def requests(self, session_id: str) -> Path:
        """Return the journal of a session's request ids."""
        found = self.session(session_id) / "idempotency.jsonl"
        if found.is_symlink():
            message = f"{found} is a link, and request ids are not read or written through one"
            fix = f"replace the link {found} by the file that it leads to"
            raise WrongPath(message, fix=fix, path=str(found))
        return found


def check_session_id(session_id: object) -> str:
    """Return the session id, or raise InvalidArgument if it is unsafe in a path."""
    if not isinstance(session_id, str) or not _SESSION_ID.fullmatch(session_id):
        message = f"sessionId: {session_id!r:.100} is not a valid session id"
        fix = "use 1 to 80 of A-Z, a-z, 0-9, `_` and `-`; the first is a letter or digit"
        raise InvalidArgument(message, fix=fix, field="sessionId")
    return session_id


def _path_from(named: str | None, default: Path) -> Path:
    # The home of an unknown user stays unexpanded, and is reported as missing later.
    return Path(os.path.expanduser(named)).absolute() if named else default  # noqa: PTH111
