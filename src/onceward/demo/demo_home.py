"""Demo home: the directory, store and files of a demo. Starts nothing."""

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

#: Names the demonstration in the environment of everything that it starts.
TAG_VARIABLE: Final = "ONCEWARD_DEMO"
#: The Lab's own variables; to import the Lab would make every worker start later.
_ROOT_VARIABLE: Final = "CM_LAB_ROOT"
_FEEDBACK_VARIABLE: Final = "CM_FEEDBACK_STORE_PATH"
#: Where a process is killed every few seconds, only what an operator can fix is worth an alert.
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
    """The objects of a demonstration, for the server that shows it."""

    #: Holds everything but the store, and SQLite's store too.
    home: Path
    store_url: str
    #: The consumers that workers run, in this process for counting only.
    apps: tuple[App, ...] = ()

    @property
    def lab_root(self) -> Path:
        """Return where the Lab keeps runs, experiments and sessions."""
        return self.home / "lab"

    @property
    def feedback(self) -> Path:
        """Return the file of judgements."""
        return self.home / "feedback.jsonl"

    @property
    def made(self) -> Path:
        """Return where lie the directories of what agents made, for the Lab to import."""
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
        """Return where every process writes what it has to say."""
        return self.home / "logs"

    @property
    def ready(self) -> Path:
        """Return the file that is there once a living story has something to show."""
        return self.home / "ready"

    @property
    def kills(self) -> Path:
        """Return the journal of processes that were killed, each noted when it was dead."""
        return self.home / "kills.jsonl"

    @property
    def attempts(self) -> Path:
        """Return the journal of what was tried, by its key, each noted before it was tried."""
        return self.home / "attempts.jsonl"

    @property
    def tag(self) -> str:
        """Return what its processes have in their environment, and no others."""
        return str(self.home)

    @property
    def environment(self) -> dict[str, str]:
        """Return what makes every command of ours work in this world."""
        return {
            HOME_VARIABLE: str(self.home),
            STORE_VARIABLE: self.store_url,
            _ROOT_VARIABLE: str(self.lab_root),
            _FEEDBACK_VARIABLE: str(self.feedback),
            TAG_VARIABLE: self.tag,
        }


def prepare(world: DemoWorld) -> None:
    """Make the directories of a world, and rules by which take-overs are nothing special."""
    files = SystemFiles()
    for folder in (world.home, world.logs, world.made):
        files.make_directories(folder)
    atomic_file.write(world.home / "onceward.toml", _RULES.encode())


def store_in(home: Path) -> str:
    """Return the address of a store in a home."""
    return f"sqlite:///{home / 'onceward.db'}"


def check_empty(store: Store) -> None:
    """Refuse a store that was used before: a demonstration adds tables and kills workers.

    Called before it is migrated: a database in use holds our tables, if nothing else yet.
    """
    if store.applied():
        message = f"{store.url} is in use: it holds tables of Onceward's"
        fix = "give the demonstration an empty database, or leave --store out"
        raise Conflict(message, fix=fix)
