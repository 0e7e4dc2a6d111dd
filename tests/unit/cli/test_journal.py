"""`onceward journal`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from onceward.journal import Journal
from tests.support.command_runner import Run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes.jsonl"


def test_append_then_poll_then_poll_again(run: Run, path: Path) -> None:
    """The cursor of one answer is the start of the next."""
    ran = run("journal", "append", str(path), '{"id":"1"}', '[{"id":"2"},{"id":"3"}]', "--json")
    assert ran.json == {"start": "0", "end": str(path.stat().st_size), "records": 3}
    page = run("journal", "poll", str(path), "--limit", "2", "--json").json
    assert [item["id"] for item in page["items"]] == ["1", "2"]
    words = ["--since", page["nextCursor"], "--fingerprint", page["fingerprint"]]
    ran = run("journal", "poll", str(path), *words)
    assert ran.out == '{"id":"3"}\n'
    assert ran.err == f"next cursor: {path.stat().st_size}\n"


def test_append_from_stdin(run: Run, path: Path) -> None:
    """`-` reads the record from standard input."""
    assert run("journal", "append", str(path), "-", stdin=b'{"id": "1"}').code == 0
    assert Journal(path).read().items == [{"id": "1"}]


@pytest.mark.parametrize(
    ("records", "says"),
    [
        (["[]"], "records: the array is empty"),
        (["7"], "records[0]: must be a JSON object"),
        (['{"id":"1"}', "oops"], "records: not JSON"),
    ],
)
def test_bad_records_change_nothing(run: Run, path: Path, records: list[str], says: str) -> None:
    """One bad record, and none is written."""
    ran = run("journal", "append", str(path), *records)
    assert ran.code == 2
    assert ran.err.startswith(f"error: {says}")
    assert not path.exists()


def test_poll_matches_fields(run: Run, path: Path) -> None:
    """Only records whose fields have these texts are printed."""
    Journal(path).append({"id": "1", "sessionId": "a"}, {"id": "2", "sessionId": "b"})
    assert run("journal", "poll", str(path), "--match", "sessionId=b").out == (
        '{"id":"2","sessionId":"b"}\n'
    )
    ran = run("journal", "poll", str(path), "--match", "sessionId")
    assert ran.code == 2
    assert "must have the form FIELD=TEXT" in ran.err


def test_a_bad_cursor_says_how_to_start_again(run: Run, path: Path) -> None:
    """The error names the cursor and the fix."""
    ran = run("journal", "poll", str(path), "--since", "99")
    assert ran.code == 2
    assert ran.err.splitlines()[1].startswith('fix: pass a cursor that this file gave, or "0"')


def test_tail_stops_after_the_wait(run: Run, path: Path) -> None:
    """What is there is printed, then the command waits, then it ends."""
    Journal(path).append({"id": "1"})
    ran = run("journal", "tail", str(path), "--wait", "0.1")
    assert (ran.code, ran.out) == (0, '{"id":"1"}\n')
    page = run("journal", "tail", str(path), "--wait", "0", "--json").json
    assert page["items"] == [{"id": "1"}]
    assert run("journal", "tail", str(path), "--since", "end", "--wait", "0").out == ""


def test_a_fingerprint_does_not_belong_to_the_end(run: Run, path: Path) -> None:
    """It would not be checked, so it is rejected."""
    ran = run("journal", "tail", str(path), "--since", "end", "--fingerprint", "1.2", "--wait", "0")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: fingerprint: belongs to a cursor")


def test_tail_follows_other_processes_and_stops_quietly(path: Path) -> None:
    """Records appear as they are appended; closing the pipe ends it without noise."""
    Journal(path).append({"id": "1"})
    command = [sys.executable, "-m", "onceward", "journal", "tail", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tail:
        assert tail.stdout
        assert tail.stderr
        assert json.loads(tail.stdout.readline()) == {"id": "1"}
        Journal(path).append({"id": "2"})
        assert json.loads(tail.stdout.readline()) == {"id": "2"}
        tail.stdout.close()
        Journal(path).append({"id": "3"})
        assert tail.wait(timeout=60) == 1
        assert tail.stderr.read() == b""


def test_verify_reports_by_exit_code(run: Run, path: Path) -> None:
    """A clean file is 0; damage is 1, listed with its place; no file is 2."""
    assert run("journal", "verify", str(path)).code == 2
    Journal(path).append({"id": "1"})
    assert run("journal", "verify", str(path)).out.splitlines()[-1] == "ok"
    with path.open("ab") as file:
        file.write(b"broken\n{torn")
    ran = run("journal", "verify", str(path))
    assert ran.code == 1
    assert "damaged: 6 bytes at 11" in ran.out
    assert "torn: 5 bytes" in ran.out
    assert run("journal", "verify", str(path), "--json").json["ok"] is False
