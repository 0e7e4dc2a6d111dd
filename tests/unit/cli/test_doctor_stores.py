"""The doctor at a store: what it says of one, and that it leaves everything as it was."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from onceward.cli.doctor import _print_checks
from onceward.doctor import Check, directories, examine_url, sqlite_read_only
from onceward.doctor import postgres_server as server
from onceward.stores.queries import migrations
from onceward.stores.sqlite.store import SqliteStore
from tests.support.command_runner import Run

#: Opens a database, adds to it, and waits for a line; then it ends without closing it.
USER = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("pragma journal_mode = wal").fetchall()
connection.execute("insert into onceward_migrations values (999, 'later', '')")
print("ready", flush=True)
sys.stdin.readline()
os._exit(0)
"""


def found(checks: list[Check], name: str) -> Check:
    (check,) = [each for each in checks if each.name == name]
    return check


def schema(url: str) -> tuple[str, str]:
    check = found(examine_url(url), "schema")
    return check.status, f"{check.detail} {check.fix}"


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is not the home of ours."""
    monkeypatch.setenv("ONCEWARD_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("ONCEWARD_STORE", raising=False)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def store(sqlite_template: Path, place: Path) -> Path:
    """A store that no process has open."""
    return Path(shutil.copy(sqlite_template, place / "work.db"))


@contextmanager
def untouched(place: Path) -> Iterator[None]:
    """Compare every name and every byte of a directory, before and after."""

    def everything() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in place.iterdir()}

    before = everything()
    yield
    assert everything() == before


@contextmanager
def in_use(store: Path) -> Iterator[None]:
    """Let another process write to a store, keep it open, and end without closing it."""
    command = [sys.executable, "-c", USER, str(store)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdin is not None
        assert user.stdout is not None
        user.stdout.readline()
        yield
        user.stdin.write(b"\n")


# --- nothing changes ----------------------------------------------------------------------------


def test_a_store_that_is_missing_is_not_made(place: Path) -> None:
    """A read-only command makes no store."""
    with untouched(place):
        assert "does not exist yet" in found(examine_url(url_of(place / "a.db")), "store").detail


def test_an_empty_file_stays_empty(place: Path) -> None:
    """A file without a byte is a store without tables."""
    (place / "a.db").touch()
    with untouched(place):
        assert "no tables yet" in schema(url_of(place / "a.db"))[1]


def test_the_database_of_another_application_stays_as_it_is(place: Path) -> None:
    """Its journal mode is theirs to choose."""
    theirs = sqlite3.connect(place / "a.db")
    theirs.execute("create table mine (a)")
    theirs.close()
    with untouched(place):
        assert "no tables yet" in schema(url_of(place / "a.db"))[1]


@pytest.mark.parametrize("name", ["work.db", "a b?mode=rwc&c%20#.db", "link.db"])
def test_a_store_that_no_process_has_open_stays_as_it_is(store: Path, name: str) -> None:
    """Nothing is made beside it, whatever it is called."""
    path = store.with_name(name)
    if name == "link.db":
        path.symlink_to(store)
    elif path != store:
        store.rename(path)
    with untouched(path.parent):
        checks = examine_url(url_of(path), is_deep=True)
    assert {check.status for check in checks[3:]} == {"ok"}, checks
    assert found(checks, "integrity").detail == "the engine finds no problem"


def test_a_store_in_use_is_read_as_it_is_now(store: Path) -> None:
    """What others have committed counts, and not a byte of what they share is written."""
    with in_use(store), untouched(store.parent):
        assert "migration 999" in schema(url_of(store))[1]


def test_a_store_of_a_process_that_died_is_read_and_left_to_its_next_user(store: Path) -> None:
    """Commits that are only in the `-wal` are read there, and stay there."""
    with in_use(store):
        pass
    assert store.with_name("work.db-wal").stat().st_size
    with untouched(store.parent):
        assert "migration 999" in schema(url_of(store))[1]


def test_a_store_that_cannot_be_read_without_a_write_is_reported(run: Run, store: Path) -> None:
    """A `-wal` alone, as from a copy, waits for a writer; the doctor is none, and says so."""
    with in_use(store):
        pass
    store.with_name("work.db-shm").unlink()
    with untouched(store.parent):
        check = found(examine_url(url_of(store)), "store")
    assert (check.status, "in the middle of a commit" in check.detail) == ("note", True)
    assert run("db", "status", "--store", url_of(store)).code == 1  # as the fix says
    assert "migration 999" in schema(url_of(store))[1]


def test_a_rollback_that_waits_is_left_to_the_next_writer(place: Path) -> None:
    """A journal that is left over belongs to the next writer."""
    theirs = sqlite3.connect(place / "a.db")
    theirs.executescript("create table mine (a); insert into mine values (zeroblob(90000))")
    theirs.execute("pragma cache_size = 1")  # Pages are written before the commit.
    theirs.executescript("begin; update mine set a = zeroblob(90001)")
    for name in ("a.db", "a.db-journal"):  # as if it had died here
        shutil.copy(place / name, place / f"copy-{name}")
    theirs.close()
    with untouched(place):
        check = found(examine_url(url_of(place / "copy-a.db")), "store")
    assert (check.status, "in the middle of a commit" in check.detail) == ("note", True)


def test_a_writer_that_comes_meanwhile_is_not_overlooked(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that was read without a lock is read again when it changed under the reader."""
    other = SqliteStore(store)
    looks = []
    read = sqlite_read_only.SqliteFile.read

    def disturbed(self: Any, name: str, /, **params: object) -> Any:
        rows = read(self, name, **params)
        looks.append(name)
        if len(looks) == 1:
            with other.transaction() as tx:
                tx.execute("insert into onceward_migrations values (999, 'later', '')")
        return rows

    monkeypatch.setattr(sqlite_read_only.SqliteFile, "read", disturbed)
    assert "migration 999" in schema(url_of(store))[1]
    other.close()


# --- what is said -------------------------------------------------------------------------------


def test_the_schema_of_a_store_must_be_of_this_version(sqlite_template: Path, place: Path) -> None:
    """One of an earlier development version is refused, a newer one wants a newer version."""
    last = len(migrations("sqlite"))
    changes: dict[str, tuple[str, str]] = {
        "select 1": ("ok", f"{last} of {last}"),
        "update onceward_migrations set name = 'time'": ("fail", "create a new store"),
        "insert into onceward_migrations values (999, 'later', '')": ("fail", "or newer"),
    }
    for number, (sql, (status, says)) in enumerate(changes.items()):
        copy = Path(shutil.copy(sqlite_template, place / f"{number}.db"))
        connection = sqlite3.connect(copy, isolation_level=None)
        connection.execute(sql)
        connection.close()
        found_schema = schema(url_of(copy))
        assert (found_schema[0], says in found_schema[1]) == (status, True), found_schema


def test_a_store_that_lacks_a_migration_is_reported(
    sqlite_template: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fix is to migrate."""
    later = (*migrations("sqlite"), (len(migrations("sqlite")) + 1, "later", ""))
    monkeypatch.setattr("onceward.doctor.store_checks.migrations", lambda _: later)
    found_schema = schema(url_of(Path(shutil.copy(sqlite_template, place / "old.db"))))
    assert (found_schema[0], "onceward db migrate" in found_schema[1]) == ("fail", True), (
        found_schema
    )


def test_a_refused_statement_is_not_taken_for_a_new_store(place: Path) -> None:
    """Only a missing table means that there is none yet."""
    theirs = sqlite3.connect(place / "a.db")
    theirs.execute("create table onceward_migrations (other)")
    theirs.close()
    check = examine_url(url_of(place / "a.db"))[-1]
    assert (check.name, check.status) == ("store", "fail")
    assert "no such column" in check.detail
    assert check.fix


def test_a_store_elsewhere_has_its_own_disk_looked_at(place: Path) -> None:
    """The disk of the home says nothing about the disk of the store."""
    names = [check.name for check in examine_url(url_of(place / "a.db"))]
    assert names == ["disk", "filesystem", "fsync", "store"]
    assert [check.name for check in examine_url()] == ["store"]


def test_advice_names_what_said_where_the_store_is(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another home does not move a store that was named."""
    (place / "mounts").write_text("21 1 254:0 / / rw - tmpfs tmpfs rw\n")
    monkeypatch.setattr(directories, "MOUNTS", place / "mounts")
    url = url_of(place / "a.db")
    assert found(examine_url(url), "filesystem").fix.startswith("set --store to")
    monkeypatch.setenv("ONCEWARD_STORE", url)
    assert found(examine_url(), "filesystem").fix.startswith("set ONCEWARD_STORE to")
    monkeypatch.setenv("ONCEWARD_STORE", "sqlite:////proc/nowhere/a.db")
    assert found(examine_url(), "fsync").fix.startswith("set ONCEWARD_STORE to")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://x", "sqlite:///"),
        (
            "sqlite:////proc/version",
            "not a SQLite database" if os.geteuid() == 0 else "may not read",
        ),
        ("sqlite:////proc", "not a file"),
        ("sqlite:////proc/version/a.db", "not a directory"),
        ("postgresql://localhost/db?pool_size=5", "pool_size"),
    ],
)
def test_a_store_that_cannot_be_opened_fails(url: str, says: str) -> None:
    """What is wrong with it is the finding, and what to do its fix."""
    check = examine_url(url)[-1]
    assert (check.name, check.status) == ("store", "fail")
    assert says in check.detail
    assert check.fix


def test_a_store_that_may_not_be_written_fails(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the doctor can read it does not help a command that has to write."""
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    check = found(examine_url(url_of(store)), "store")
    assert (check.status, "check owner" in check.fix) == ("fail", True)


def test_what_has_no_fix_has_no_line_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    """There are no empty lines for missing parts."""
    _print_checks([Check(name="store", status="fail", detail="odd", why="it is")])
    assert (
        capsys.readouterr().out
        == "fail  store  odd\n             why: it is\nnot fit: 1 of 1 checks failed\n"
    )


def test_a_whole_store_is_checked_when_asked(run: Run, store: Path) -> None:
    """The engine's own check takes long, so it waits to be asked."""
    assert "integrity" not in run("doctor", "--store", url_of(store)).out
    ran = run("doctor", "--deep", "--store", url_of(store))
    assert "the engine finds no problem" in ran.out


# --- PostgreSQL ---------------------------------------------------------------------------------


def test_a_new_database_is_reachable_and_empty(postgres_server: Any) -> None:
    """PostgreSQL is asked without making a table in it; it checks its pages by itself."""
    url = postgres_server.new_database("doctor_new")
    for _ in range(2):
        checks = examine_url(url, is_deep=True)
        assert [(check.name, check.status) for check in checks] == [
            ("store", "ok"),
            ("schema", "ok"),
            ("integrity", "note"),
            ("server", "ok"),
        ]
        assert "no tables yet" in checks[1].detail
        assert "pg_amcheck" in checks[2].detail


def test_a_role_that_may_not_read_does_not_get_an_ok(postgres_server: Any) -> None:
    """Only a table that is missing means that there is none yet."""
    url = postgres_server.new_database("doctor_refused")
    with psycopg.connect(url) as connection:
        connection.execute("create table onceward_migrations (number bigint, name text)")
        connection.execute("create role doctor_reader login")
    check = examine_url(url.replace("postgres@", "doctor_reader@"))[0]
    assert (check.name, check.status) == ("store", "fail")
    assert "permission denied" in check.detail
    assert "grant" in check.fix


def test_an_old_server_fails(postgres_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What our statements need is not there before PostgreSQL 14."""
    monkeypatch.setattr(server, "POSTGRES_VERSION_MIN", 99)
    (check,) = examine_url(postgres_server.new_database("doctor_old"))
    assert (check.name, check.status) == ("server", "fail")
    assert check.fix == "upgrade the server to PostgreSQL 99 or newer"


@pytest.mark.parametrize(("encoding", "status"), [("SQL_ASCII", "fail"), ("LATIN1", "warn")])
def test_a_database_that_does_not_take_any_text_is_reported(
    postgres_server: Any, encoding: str, status: str
) -> None:
    """Keys and messages are of any language."""
    name = f"doctor_{encoding.lower()}"
    made = f"create database {name} template template0 encoding '{encoding}' locale 'C'"
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(made.encode())
    check = found(examine_url(postgres_server.database(name)), "encoding")
    assert (check.status, encoding in check.detail) == (status, True)
