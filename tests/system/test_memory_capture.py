"""`onceward memory capture` as a process: a failing test, its fix, and its verification."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.support.memory_commands import (
    COMMAND,
    END_SECONDS_MAX,
    SECRET,
    MemoryDirectory,
    place,
    python,
)

__all__ = ["place"]


TEST = "from calc import add\n\n\ndef test_add():\n    assert add(1, 1) == 2\n"
RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"
PYTEST = (sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider")


def test_a_returning_error_brings_its_fix_and_the_evidence(place: MemoryDirectory) -> None:
    """Fails, is fixed, passes, breaks again: what helped is shown, with the evidence."""
    calc = place.directory / "calc.py"
    (place.directory / "test_calc.py").write_text(TEST)
    calc.write_text(WRONG)

    first = place.capture(*PYTEST)
    assert first.returncode == 1
    assert "1 failed" in first.stdout
    assert "memory: recorded, exit code 1, 1 error" in first.stderr
    assert "new, no fix is known" in first.stderr

    fixed = place.run(
        *(
            "fix",
            "assert 0 == 2",
            "--strategy",
            "add, not subtract",
            "--change",
            "calc.py: + for -",
        ),
        *("--doc", "https://docs.example.org/sums"),
    )
    assert fixed.returncode == 0, fixed.stderr
    name = fixed.stdout.removeprefix("recorded: ").strip()
    assert re.fullmatch(r"fix#err#assert 0 == 2#[0-9a-f]{8}", name)

    calc.write_text(RIGHT)
    second = place.capture(*PYTEST)
    assert second.returncode == 0
    assert f"fix verified, its issue is gone: {name}" in second.stderr

    calc.write_text(WRONG)
    third = place.capture(*PYTEST)
    assert third.returncode == 1
    assert "add, not subtract" in third.stderr
    assert "verified 1 of 1" in third.stderr
    assert name in third.stderr

    recalled = place.json("recall", "E       assert 0 == 2".removeprefix("E "))
    assert recalled["fixes"][0]["name"] == name
    assert (recalled["fixes"][0]["verified"], recalled["fixes"][0]["failed"]) == (1, 0)

    for said in ("recorded: ", "known already: "):
        again = place.run(
            *("fix", "assert 0 == 2", "--strategy", "add, not subtract"),
            *("--change", "calc.py: + for -", "--doc", "https://docs.example.org/sums"),
        )
        assert again.stdout == f"{said}{name}\n"
    calc.write_text(RIGHT)
    place.capture(*PYTEST)
    assert "verified 2 of 2" in place.json("recall", "assert 0 == 2")["text"]
    assert place.json("doctor")["ok"]


def test_a_fix_that_does_not_help_is_remembered_as_such(place: MemoryDirectory) -> None:
    """The error is still there after the fix was recorded: its evidence is 0 of 1."""
    (place.directory / "test_calc.py").write_text(TEST)
    (place.directory / "calc.py").write_text(WRONG)
    place.capture(*PYTEST)
    place.run("fix", "assert 0 == 2", "--strategy", "try again")
    again = json.loads(place.run("capture", "--json", "--", *PYTEST).stdout)
    assert [each["status"] for each in again["outcomes"]] == ["failed"]
    (issue,) = again["issues"]
    assert issue["known"]["fixes"][0]["failed"] == 1


def test_output_passes_through_as_it_is(place: MemoryDirectory) -> None:
    """Both streams, byte for byte, and what Onceward reports follows on stderr."""
    program = (
        "import sys; sys.stdout.buffer.write(b'a\\xff\\0\\r\\nb')"
        "; sys.stderr.write('warning: c\\n')"
    )
    process = place.start("capture", "--", *python(program))
    out, err = process.communicate(timeout=END_SECONDS_MAX)
    assert out == b"a\xff\0\r\nb"
    assert err.startswith(b"warning: c\nmemory: recorded, exit code 0, 1 warning\n")
    assert process.returncode == 0


def test_output_comes_while_the_command_runs(place: MemoryDirectory) -> None:
    """A line is there when it was written, not when the command is done."""
    program = "import sys; print('first'); sys.stdin.readline(); print('second')"
    process = place.start("capture", "--", *python(program), stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"first\n"
    out, _ = process.communicate(b"go on\n", timeout=END_SECONDS_MAX)
    assert out == b"second\n"


def test_a_command_can_read_what_we_are_given(place: MemoryDirectory) -> None:
    """Its standard input is ours."""
    assert place.capture("cat", stdin="to be read").stdout == "to be read"


def test_with_json_stdout_is_one_object(place: MemoryDirectory) -> None:
    """All output of the command goes to stderr, and the object says what was found."""
    ran = place.run(
        *("capture", "--mode", "tester@1", "--repo", "acme/shop", "--branch", "b", "--json", "--"),
        *python("print('out'); import nothere"),
    )
    assert ran.returncode == 1
    assert "out\n" in ran.stderr
    printed = json.loads(ran.stdout)
    assert printed["recorded"]
    assert printed["exitCode"] == 1
    (issue,) = printed["issues"]
    assert issue["name"] == "err#modulenotfounderror: no module named 'nothere'"
    assert (issue["kind"], issue["detector"]) == ("ModuleNotFoundError", "python")
    assert (issue["isNew"], issue["isWarning"], issue["known"]) == (True, False, None)
    shown = place.json("show", printed["run"])
    envelope = json.loads(shown["entities"][0]["observations"][0]["content"])
    assert [envelope[name] for name in ("mode", "repo", "branch")] == ["tester@1", "acme/shop", "b"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -TERM $$"), 143),
        (("no-such-command-anywhere",), 127),
        (("/etc/passwd",), 126),
        (("true",), 0),
    ],
)
def test_the_exit_code_is_the_commands(
    place: MemoryDirectory, words: tuple[str, ...], code: int
) -> None:
    """Signals and commands that cannot be started have the codes that shells give them."""
    ran = place.capture(*words)
    assert ran.returncode == code
    assert f"memory: recorded, exit code {code}" in ran.stderr


def test_options_of_the_command_are_its_own(place: MemoryDirectory) -> None:
    """What stands after the first word is not ours to read."""
    assert place.run("capture", "echo", "--json", "--help").stdout == "--json --help\n"


def test_a_store_that_fails_does_not_hide_the_result(place: MemoryDirectory) -> None:
    """The output and the exit code are the command's; the trouble is reported on stderr."""
    store = "sqlite:////proc/nowhere/memory.db"
    ran = place.run("capture", "--store", store, "--", "sh", "-c", "echo out; exit 5")
    assert (ran.returncode, ran.stdout) == (5, "out\n")
    assert "warning: the command was not recorded" in ran.stderr
    assert "error: " in ran.stderr
    machine = place.run("capture", "--store", store, "--json", "--", "sh", "-c", "exit 5")
    assert machine.returncode == 5
    printed = json.loads(machine.stdout)
    assert (printed["exitCode"], printed["recorded"]) == (5, False)
    assert printed["error"]["message"]


def test_a_closed_output_stops_the_command(place: MemoryDirectory) -> None:
    """As in any pipe: the command gets SIGPIPE, and what it did is recorded."""
    process = place.start("capture", "--", "yes")
    assert process.stdout is not None
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    assert process.wait(END_SECONDS_MAX) == 128 + signal.SIGPIPE
    assert process.stderr is not None
    assert b"memory: recorded, exit code 141" in process.stderr.read()
    process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_goes_to_the_command_and_is_recorded(
    place: MemoryDirectory, number: signal.Signals
) -> None:
    """Without a terminal we pass on what ends us; what the command makes of it is recorded."""
    process = place.start("capture", "--", *python("print('on'); import time; time.sleep(60)"))
    assert process.stdout is not None
    assert process.stdout.readline() == b"on\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=END_SECONDS_MAX)
    assert process.returncode == 128 + number
    assert f"memory: recorded, exit code {128 + number}" in err.decode()


def test_what_is_left_running_is_not_waited_for(place: MemoryDirectory) -> None:
    """A command that leaves a background process with its output ends when it ends."""
    ran = place.capture("sh", "-c", "sleep 600 & echo $!")
    os.kill(int(ran.stdout), signal.SIGKILL)  # It is there still.
    assert ran.returncode == 0


def test_a_flood_is_passed_on_whole_and_kept_in_part(place: MemoryDirectory) -> None:
    """Ten megabytes go through; errors at the beginning and at the end are found."""
    program = (
        "import sys\nprint('error: at the beginning')\n"
        "for _ in range(10_000): sys.stdout.write('x' * 999 + chr(10))\n"
        "print('error: at the end')\n"
    )
    ran = place.run("capture", "--json", "--", sys.executable, "-c", program)
    assert len(ran.stderr) > 10_000_000
    printed = json.loads(ran.stdout)
    assert [each["message"] for each in printed["issues"]] == ["at the beginning", "at the end"]
    (command,) = place.json("show", printed["command"])["entities"]
    assert len(command["observations"][0]["content"]) < 10_000


def test_h32_secrets_of_the_environment_never_reach_the_memory(place: MemoryDirectory) -> None:
    """They pass through to the user's terminal, and are not written down."""
    ran = place.capture(
        *python(f"raise SystemExit('error: token {SECRET} was refused')"), SHOP_TOKEN=SECRET
    )
    assert SECRET in ran.stderr.partition("memory: recorded")[0]
    assert SECRET not in ran.stderr.partition("memory: recorded")[2]
    assert SECRET not in place.run("export").stdout
    assert "was refused" in place.run("export").stdout
    for file in place.directory.glob("memory.db*"):
        assert SECRET.encode() not in file.read_bytes()


def test_h32_secrets_among_the_arguments_never_reach_the_memory(place: MemoryDirectory) -> None:
    """The flag before it says that a word is one, whatever is in it; no variable holds it."""
    ran = place.capture("sh", "-c", "exit 3", "--token", "s3cr3t v'alue", "--password=x9 y8", "z7")
    assert "memory: recorded, exit code 3" in ran.stderr
    kept = place.run("export").stdout
    assert not [each for each in ("s3cr3t", "alue", "x9", "y8") if each in kept]
    assert "sh -c 'exit 3' --token [redacted] --password=[redacted] z7" in kept
    found = place.json("recall", "sh -c 'exit 3' --token other --password=another z7")
    assert found["how"] == "derived key"


def test_arguments_and_directories_of_any_bytes_are_recorded(place: MemoryDirectory) -> None:
    """What is not UTF-8 costs neither the command nor its record."""
    directory = place.directory / os.fsdecode(b"d\xff")
    directory.mkdir()
    words: list[str | bytes] = [*COMMAND, "capture", "--", "ls", b"/nope\xff"]
    ran = subprocess.run(
        words, cwd=directory, env=place.environment, capture_output=True, check=False, timeout=60
    )
    assert ran.returncode == 2
    assert b"memory: recorded, exit code 2, 1 error" in ran.stderr
