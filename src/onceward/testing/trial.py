"""Trial: give each crash experiment a fresh store and directory, copied from a prepared one.

Creates them as copies of what `setup` prepared, and removes them afterwards.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from onceward.testing.forked_process import ForkedProcess, Report

if TYPE_CHECKING:
    import psycopg

    from onceward.client import Onceward
    from onceward.stores import Row

#: A function of the user; called with the trial, unless it takes no argument.
Step = Callable[..., Any]
_NEEDED: Final = ("onceward.client", "onceward.stores.sqlite.store")
_FILE: Final = "onceward.db"
#: Every server has this database, and it holds no data.
_ELSEWHERE: Final = "postgres"
_numbers: Final = itertools.count(1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """The store and the directory of one trial. Nothing else outlives its processes."""

    #: URL of the trial's store. Its processes have it in `$ONCEWARD_STORE`, so that `App()` finds
    #: it.
    url: str
    #: A directory for effects outside the store, such as a file that simulates a bank.
    path: Path

    def open(self) -> Onceward:
        """Open the store."""
        from onceward.client import open as open_handle  # noqa: PLC0415 - not for every test run

        return open_handle(self.url)

    def rows(self, sql: str, params: Any = ()) -> list[Row]:  # noqa: ANN401 - those of `execute`
        """Run a query in the trial's store, and return its rows."""
        with self.open() as ow, ow.transaction() as tx:
            return list(tx.execute(sql, params))


class Trials:
    """All trials of one test, one after the other, each with a copy of the same prepared state.

    All have the same URL and path, so that `setup` can store them.
    """

    def __init__(self, url: str | None = None, *, setup: Step | None = None) -> None:
        """Copy the store at `url`; without `url`, start with an empty SQLite file."""
        for module in _NEEDED:  # Imported once here, not in every child.
            import_module(module)
        self._url = url or ""
        self._setup = setup
        self._home = Path(tempfile.mkdtemp(prefix="onceward-trials-"))
        place = self._home / "trial"
        self._path = place / "files"
        self._store = f"sqlite:///{place / _FILE}"
        self._base = self._home / "base"
        self._base_store = ""
        if _is_postgres(self._url):
            name = f"{_database(self._url)[:40]}_{os.getpid()}_{next(_numbers)}"
            self._store = _beside(self._url, name)
            self._base_store = _beside(self._url, f"{name}_base")

    def __enter__(self) -> Self:
        __tracebackhide__ = True
        try:
            self._path.mkdir(parents=True)
            trial = Trial(url=self._store, path=self._path)
            if self._base_store:
                _copy_database(self._url, self._store)
            with ForkedProcess(self._prepare, trial, name="setup") as process:
                process.wait().expect("setup")
            self._path.parent.rename(self._base)
            if self._base_store:
                _copy_database(self._store, self._base_store)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove everything."""
        for store in (self._store, self._base_store):
            if _is_postgres(store):
                _drop_database(store)
        shutil.rmtree(self._home, ignore_errors=True)

    @contextmanager
    def new(self) -> Iterator[Trial]:
        """Create the next trial, and remove the previous one."""
        shutil.rmtree(self._path.parent, ignore_errors=True)
        shutil.copytree(self._base / self._path.name, self._path)
        if self._base_store:
            _drop_database(self._store)
            _copy_database(self._base_store, self._store)
        else:
            _copy_sqlite(self._base / _FILE, self._path.parent / _FILE)
        yield Trial(url=self._store, path=self._path)

    def _prepare(self, trial: Trial, _report: Report) -> None:
        """Create the store that all trials copy, in a process of its own."""
        if self._url.startswith("sqlite:///"):
            # Not in the parent, which may have the file open: closing it would drop SQLite's locks.
            source = Path(self._url.removeprefix("sqlite:///")).expanduser()
            _copy_sqlite(source, trial.path.parent / _FILE)
        trial.open().close()
        if self._setup is not None:
            call(self._setup, trial)


def call(step: Step, trial: Trial) -> Any:  # noqa: ANN401 - whatever it returns
    """Call a user's function, with the trial if it takes an argument."""
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL)
    takes = any(each.kind in kinds for each in signature(step).parameters.values())
    return step(trial) if takes else step()


def _copy_sqlite(source: Path, target: Path) -> None:
    """Copy a database, if it exists, including changes that are only in its write-ahead log."""
    for suffix in ("", "-wal"):
        file = source.with_name(source.name + suffix)
        if file.exists():
            shutil.copy(file, target.with_name(target.name + suffix))


def _is_postgres(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def _database(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def _beside(url: str, name: str) -> str:
    return urlsplit(url)._replace(path=f"/{name}").geturl()


def _copy_database(source: str, target: str) -> None:
    _command(source, f'create database "{_database(target)}" template "{_database(source)}"')


def _drop_database(url: str) -> None:
    # By force: connections of a killed process may still be open for a moment.
    _command(url, f'drop database if exists "{_database(url)}" with (force)')


def _command(url: str, sql: str) -> None:
    import psycopg  # noqa: PLC0415 - only where it is used

    from onceward.stores.postgres.pooler import split_url  # noqa: PLC0415 - the same

    connection: psycopg.Connection[Any]
    address, _ = split_url(_beside(url, _ELSEWHERE))
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(sql.encode())
