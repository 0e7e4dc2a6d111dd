"""The memory's commands on terminals and in pipes: signals and output."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time

from tests.support.memory_commands import COMMAND, END_SECONDS_MAX, MemoryDirectory, place, python

__all__ = ["place"]


#: Becomes the leader of a session whose terminal is its standard input, then another program.
LEADER = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
    "; os.execv(sys.argv[1], sys.argv[1:])"
)


def on_terminal(
    place: MemoryDirectory, *words: str, keys: bytes = b"", after: bytes = b""
) -> tuple[str, int]:
    """Run a command on a terminal of its own, press keys once it has printed something."""
    terminal, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", LEADER, *COMMAND, *words],
        cwd=place.directory,
        env={**place.environment, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    deadline = time.monotonic() + END_SECONDS_MAX
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1.0)[0]:
            continue
        try:
            seen += os.read(terminal, 65_536)
        except OSError:  # No process has it open any more.
            break
        if keys and after in seen:
            os.write(terminal, keys)
            keys = b""
    os.close(terminal)
    return seen.decode(), process.wait(END_SECONDS_MAX)


def test_on_a_terminal_the_command_has_terminals(place: MemoryDirectory) -> None:
    """It may colour its output, as it would without us; what is recorded has no colours."""
    program = (
        "import sys, os; print(all(map(os.isatty, (0, 1, 2))))"
        "; print('\\033[31merror: red\\033[0m')"
    )
    seen, code = on_terminal(place, "capture", "--", *python(program))
    assert code == 0
    assert "True\r\n\x1b[31merror: red\x1b[0m\r\n" in seen
    assert "\r\r\n" not in seen
    assert place.json("search", "type:Error red")["entities"][0]["name"] == "err#red"


def test_control_c_goes_to_the_command_once(place: MemoryDirectory) -> None:
    """The terminal sends it to both; we do not send it again, and record what came of it."""
    program = (
        "import signal, time\ncount = 0\n"
        "def count_it(*_):\n    global count\n    count += 1\n"
        "signal.signal(signal.SIGINT, count_it)\nprint('ready')\n"
        "while not count: time.sleep(0.05)\n"
        "time.sleep(0.5)\nprint('interrupted', count)\nraise SystemExit(9)\n"
    )
    seen, code = on_terminal(
        place, "capture", "--", *python(program), keys=b"\x03", after=b"ready\r\n"
    )
    assert "interrupted 1" in seen
    assert "memory: recorded, exit code 9" in seen
    assert code == 9


def test_a_rejection_is_reported_once(place: MemoryDirectory) -> None:
    """The log of the library does not get between an error and its fix."""
    ran = place.run("history", "unknown")
    assert ran.returncode == 1
    assert ran.stderr.splitlines() == [
        "error: name: no entity is named 'unknown'",
        "fix: see `onceward memory search`",
    ]


def test_what_is_piped_can_be_imported(place: MemoryDirectory) -> None:
    """An export goes from one memory to another without a file between."""
    place.capture("sh", "-c", "exit 3")
    lines = place.run("export").stdout
    store = f"sqlite:///{place.directory / 'other.db'}"
    ran = place.run("import", "/dev/stdin", "--store", store, stdin=lines)
    assert ran.stdout.startswith("4 entities, 3 observations, 3 relations added"), ran.stderr
    assert place.run("export", "--store", store).stdout == lines


def test_an_import_shows_a_bar_on_a_terminal(place: MemoryDirectory) -> None:
    """People see how far it has come; broken lines are reported above the bar."""
    lines = [
        json.dumps({"type": "entity", "name": f"e{number}", "entityType": "t", "observations": []})
        for number in range(5_000)
    ]
    (place.directory / "memory.jsonl").write_text("\n".join([*lines, "broken"]))
    seen, code = on_terminal(place, "import", "memory.jsonl")
    assert code == 0
    assert "importing" in seen
    assert "━" in seen
    assert "line 5001: is not JSON" in seen
    assert "5000 entities, 0 observations, 0 relations added; 1 left out" in seen
