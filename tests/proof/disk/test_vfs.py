"""The faulty disk itself: what it does to a file of `sqlite3`, and what it counts."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.proof.disk.vfs import CANTOPEN, FULL, IOERR_FSYNC, IOERR_WRITE, UNREACHABLE, library

if library() is None:
    pytest.skip(UNREACHABLE, allow_module_level=True)

ROOT: Final = Path(__file__).parents[3]
PAGE_BYTES: Final = 4096
#: Makes a database of one table, installs the disk, and inserts rows until one is refused.
SCRIPT: Final = """
import json, os, sqlite3, sys
from tests.proof.disk.faulty_disk import Fault, FaultyDisk

path, mode, fault, rows = sys.argv[1:]

def connected():
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"pragma journal_mode = {mode}").fetchall()
    connection.execute("pragma synchronous = full").fetchall()
    return connection

connection = connected()
connection.execute("create table t (a)")
connection.close()
disk = FaultyDisk(Fault.parse(fault) if fault else None)
code, done, before = 0, 0, {}
try:
    connection = connected()
    before = dict(disk.counts)
    for done in range(int(rows)):
        connection.execute("insert into t values (zeroblob(100))")
except sqlite3.Error as exc:
    code = exc.sqlite_errorcode
after = dict(disk.counts)
disk.heal()
kept = connected().execute("select count(*) from t").fetchone()[0]
json.dump(
    {
        "code": code,
        "done": done,
        "kept": kept,
        "hits": disk.hits,
        "first": disk.first,
        "failure": disk.failure,
        "spent": {name: after[name] - before.get(name, 0) for name in after},
    },
    sys.stdout,
)
sys.stdout.flush()
os._exit(0)  # Python would close connections after the disk that they call is gone.
"""


def ran(path: Path, fault: str, *, mode: str = "wal", rows: int = 10) -> dict[str, Any]:
    """Insert rows on the disk, in a process of its own, and return what was seen."""
    command = [sys.executable, "-c", SCRIPT, str(path), mode, fault, str(rows)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGKILL:
        return {}
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    assert seen["failure"] is None, seen["failure"]
    return seen


def test_every_operation_is_counted(tmp_path: Path) -> None:
    """In WAL mode a small commit is one sync, and two writes for its page."""
    seen = ran(tmp_path / "a.db", "", rows=10)
    assert (seen["code"], seen["hits"], seen["kept"]) == (0, 0, 10)
    # The first commit begins the log: its header is written and synced as well.
    spent = {name: seen["spent"][name] for name in ("write", "sync", "any")}
    assert spent == {"write": 21, "sync": 11, "any": 32}


@pytest.mark.parametrize("nth", [1, 2, 5])
def test_the_nth_sync_fails(tmp_path: Path, nth: int) -> None:
    """The error is that of a sync, the rows before it are there, and it strikes once."""
    seen = ran(tmp_path / "a.db", f"sync:{nth}:eio:0")
    assert (seen["code"], seen["hits"], seen["first"]) == (IOERR_FSYNC, 1, "sync of .db-wal")
    # The first two syncs are of one commit.
    assert seen["done"] == seen["kept"] == max(nth - 2, 0)


def test_other_errors_have_their_codes(tmp_path: Path) -> None:
    """A write fails or finds no space, and a file cannot be opened."""
    codes = {
        fault: ran(tmp_path / f"{fault}.db", f"{fault}:0")["code"]
        for fault in ("write:3:eio", "write:3:full", "write:3:short", "open:1:eio", "open:2:eio")
    }
    assert codes == {
        "write:3:eio": IOERR_WRITE,
        "write:3:full": FULL,
        "write:3:short": FULL,
        "open:1:eio": CANTOPEN,
        "open:2:eio": CANTOPEN,
    }


def test_a_lasting_fault_strikes_until_it_is_healed(tmp_path: Path) -> None:
    """Each later operation of the kind fails too, and a healed disk works."""
    seen = ran(tmp_path / "a.db", "write:1:full-lasting:0", mode="delete")
    assert (seen["code"], seen["kept"]) == (FULL, 0)
    assert seen["hits"] == seen["spent"]["write"]


def test_a_kill_in_the_middle_of_a_write_leaves_a_torn_page(tmp_path: Path) -> None:
    """A part of the page is in the log, up to the border of a sector; the commit is undone."""
    path = tmp_path / "a.db"
    # The header of the log, the header of the first frame, and its page.
    assert ran(path, "write:3:torn:0") == {}
    written = path.with_name("a.db-wal").stat().st_size - 32 - 24
    assert 0 < written < PAGE_BYTES
    connection = sqlite3.connect(path)
    assert connection.execute("select count(*) from t").fetchall() == [(0,)]
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    connection.close()


@pytest.mark.parametrize(("kind", "size"), [("before", 0), ("after", 32)])
def test_a_kill_before_or_after_a_write(tmp_path: Path, kind: str, size: int) -> None:
    """The header of the log is the first write: it is not in the file, or whole."""
    path = tmp_path / "a.db"
    assert ran(path, f"write:1:{kind}:0") == {}
    assert path.with_name("a.db-wal").stat().st_size == size


def test_a_power_cut_keeps_what_was_synced(tmp_path: Path) -> None:
    """The rows of finished commits survive, whatever becomes of the last one."""
    for seed in range(10):
        path = tmp_path / f"{seed}.db"
        assert ran(path, f"sync:5:cut:{seed}") == {}
        connection = sqlite3.connect(path)
        assert connection.execute("select count(*) from t").fetchall() in ([(3,)], [(4,)])
        connection.close()


def test_a_mistake_in_an_operation_is_not_a_success(tmp_path: Path) -> None:
    """SQLite cannot raise an exception of ours: it gets an error, and the traceback is kept."""
    program = """
import sqlite3, sys
from tests.proof.disk.vfs import Vfs

class Broken(Vfs):
    def write(self, path, real, offset, data):
        raise ZeroDivisionError

vfs = Broken("broken")
try:
    sqlite3.connect(sys.argv[1]).execute("create table t (a)")
except sqlite3.Error as exc:
    print(exc.sqlite_errorname, vfs.failure.splitlines()[-1])
"""
    command = [sys.executable, "-c", program, str(tmp_path / "a.db")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "SQLITE_INTERNAL ZeroDivisionError\n"
