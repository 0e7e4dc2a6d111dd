"""Another SQLite library in a process that uses a store's file: it is noticed."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import onceward
from onceward.doctor.store_checks import examine_url
from onceward.errors import SecondSqlite

SECOND = """
import logging, sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("create table theirs (n int)")
logging.basicConfig(format="%(message)s")
import onceward
from onceward.errors import SecondSqlite
try:
    onceward.open(f"sqlite:///{sys.argv[1]}", strict=sys.argv[2] == "strict").close()
except SecondSqlite as exc:
    print(exc.code, exc)
"""


HELD = """
import sys, apsw, sqlite3
connection = sqlite3.connect(sys.argv[1])
connection.execute("pragma user_version")
print(flush=True)
sys.stdin.read()
"""


#: Not imported here: this process would be one with two libraries.
needs_apsw = pytest.mark.skipif(find_spec("apsw") is None, reason="apsw is not installed")


@needs_apsw
@pytest.mark.parametrize("how", ["strict", "lenient"])
def test_a_second_sqlite_library_on_the_file_is_reported(tmp_path: Path, how: str) -> None:
    """It is logged at opening, or refused under `strict`: together they would corrupt the file."""
    path = tmp_path / "work.db"
    command = [sys.executable, "-c", SECOND, str(path), how]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    said = ran.stdout if how == "strict" else ran.stderr
    assert f"{path} is open in this process, perhaps through apsw" in said
    assert (SecondSqlite.code in ran.stdout) is (how == "strict")


@needs_apsw
def test_the_doctor_finds_a_process_with_two_libraries(tmp_path: Path) -> None:
    """A process that has the file open and another SQLite loaded is named, with the remedy."""
    path = tmp_path / "work.db"
    onceward.open(f"sqlite:///{path}").close()
    command = [sys.executable, "-c", HELD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        found = {each.detail: each.status for each in examine_url(f"sqlite:///{path}")}
        other.communicate()
    assert found[f"process {other.pid} has {path} open and has loaded apsw"] == "warn"
