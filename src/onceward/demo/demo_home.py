"""Demo home: the paths, store URL and environment variables of one demo. Starts no process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceward.errors import Conflict
from onceward.journal import atomic_file
from onceward.stores import Store
from onceward.stores.store_urls import HOME_VARIABLE, STORE_VARIABLE
from onceward.system import SystemFiles
from onceward.workers import App

#: Environment variable that marks every process of a demo, to find and kill them all.
TAG_VARIABLE: Final = "ONCEWARD_DEMO"
#: The Lab's variables, repeated here because importing the Lab would delay every worker's start.
_ROOT_VARIABLE: Final = "CM_LAB_ROOT"
_FEEDBACK_VARIABLE: Final = "CM_FEEDBACK_STORE_PATH"
#: Alert rules for a demo that kills a process every few seconds: no alerts for takeovers.
_RULES: Final = """\
[alerts_defaults]
enabled = false

[[alerts]]
name = "cursor behind"
kind = "lag"
threshold = 300
for = 60

[[alerts]]
name = "cursor failing"
kind = "errors"
threshold = 3

[[alerts]]
name = "new dead letters"
kind = "dead"
threshold = 0
window = 3600
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoWorld:
    """The directory, store and apps of one demo."""

    #: Holds all files of the demo, including a SQLite store.
    home: Path
    store_url: str
    #: The app with the consumers; this process uses it only to count messages.
    apps: tuple[App, ...] = ()

    @property
    def lab_root(self) -> Path:
        """Return the directory of the Lab's runs, experiments and sessions."""
        return self.home / "lab"

    @property
    def feedback(self) -> Path:
        """Return the feedback file."""
        return self.home / "feedback.jsonl"

    @property
    def made(self) -> Path:
        """Return the directory of the agents' outputs, for the Lab to import."""
        return self.home / "made"

    @property
    def lab_roots(self) -> list[Path]:
        """Return the directories that the Lab may read runs from."""
        return [self.made]

    @property
    def workspace(self) -> Path:
        """Return the workspace in which agents run tasks."""
        return self.home / "workspace"

    @property
    def workspaces(self) -> tuple[Path, ...]:
        """Return all workspaces."""
        return (self.workspace,)

    @property
    def logs(self) -> Path:
        """Return the directory of the processes' output and logs."""
        return self.home / "logs"

    @property
    def ready(self) -> Path:
        """Return the file that exists once the endless demo has created its first data."""
        return self.home / "ready"

    @property
    def kills(self) -> Path:
        """Return the journal of killed processes, each recorded after its death."""
        return self.home / "kills.jsonl"

    @property
    def attempts(self) -> Path:
        """Return the journal of attempts, by key, each recorded before it is made."""
        return self.home / "attempts.jsonl"

    @property
    def tag(self) -> str:
        """Return the value of the marker variable, unique to this demo."""
        return str(self.home)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables that direct Onceward's commands to this demo."""
        return {
            HOME_VARIABLE: str(self.home),
            STORE_VARIABLE: self.store_url,
            _ROOT_VARIABLE: str(self.lab_root),
            _FEEDBACK_VARIABLE: str(self.feedback),
            TAG_VARIABLE: self.tag,
        }


def prepare(world: DemoWorld) -> None:
    """Create the demo's directories, and alert rules that ignore takeovers."""
    files = SystemFiles()
    for folder in (world.home, world.logs, world.made):
        files.make_directories(folder)
    atomic_file.write(world.home / "onceward.toml", _RULES.encode())


def store_in(home: Path) -> str:
    """Return the URL of a SQLite store in a directory."""
    return f"sqlite:///{home / 'onceward.db'}"


def check_empty(store: Store) -> None:
    """Raise if a store was used before, because a demo adds tables and kills workers.

    Call this before migrating: a database in use has at least Onceward's tables.
    """
    if store.applied():
        message = (
            f"{store.url} holds tables of Onceward's, so it may be in use; nothing was changed"
        )
        fix = "give the demonstration an empty database, or omit --store"
        raise Conflict(message, fix=fix)
