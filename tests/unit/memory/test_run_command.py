"""Run command: output is forwarded through any kind of descriptor and partly kept."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from onceward.memory.capture import run_command as run_command_module
from onceward.memory.capture.run_command import CommandResult, HeadTailBuffer, run_command
from onceward.system import ManualClock
from onceward.system.redaction import Redactor

DEVNULL = os.devnull


@contextmanager
def unread() -> Iterator[tuple[int, IO[bytes]]]:
    """Give both ends of a pipe, the writing one without a buffer."""
    ours, theirs = os.pipe()
    with os.fdopen(theirs, "wb", buffering=0) as target:
        yield ours, target
    os.close(ours)


def shell(line: str, out: Path, err: Path) -> CommandResult:
    with out.open("wb", buffering=0) as stdout, err.open("wb", buffering=0) as stderr:
        return run_command(["sh", "-c", line], stdout, stderr)


def test_each_stream_keeps_its_order_and_its_end(tmp_path: Path) -> None:
    """What went to one output comes out of that one, and is kept."""
    passed = shell(
        "echo a; echo b >&2; echo c; echo d >&2; exit 3", tmp_path / "out", tmp_path / "err"
    )
    assert (tmp_path / "out").read_text() == passed.stdout == "a\nc\n"
    assert (tmp_path / "err").read_text() == passed.stderr == "b\nd\n"
    assert passed.exit_code == 3
    assert passed.cmd == "sh -c 'echo a; echo b >&2; echo c; echo d >&2; exit 3'"


def test_times_are_those_of_the_clock(tmp_path: Path) -> None:
    """A later recording of the same run has the same start."""
    with (tmp_path / "out").open("wb", buffering=0) as out:
        passed = run_command(["true"], out, out, clock=ManualClock())
    assert passed.started_at == passed.ended_at == "2026-01-01T00:00:00.000Z"
    assert passed.duration_ms == 0


def test_a_reader_that_is_slow_and_does_not_block_loses_nothing() -> None:
    """An output of ours that is full is waited for, also where writing would not wait."""
    program = "import sys; sys.stdout.write('x' * 1_000_000)"
    with unread() as (ours, target):
        os.set_blocking(target.fileno(), False)
        seen = bytearray()

        def read() -> None:
            while len(seen) < 1_000_000:
                seen.extend(os.read(ours, 10_000))

        reader = threading.Thread(target=read)
        reader.start()
        with Path(DEVNULL).open("wb", buffering=0) as err:
            passed = run_command([sys.executable, "-c", program], target, err)
        reader.join()
    assert bytes(seen) == b"x" * 1_000_000
    assert len(passed.stdout) == 1_000_000


def test_a_full_disk_ends_the_passing_not_the_recording() -> None:
    """What cannot be written any more ends the command as it would without us."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    with full.open("wb", buffering=0) as out, Path(DEVNULL).open("wb", buffering=0) as err:
        passed = run_command(["yes"], out, err)
    assert passed.exit_code == 141
    assert passed.stdout.startswith("y\n")


def test_outputs_that_are_closed_early_are_no_end(tmp_path: Path) -> None:
    """A command that closes its outputs and goes on is waited for."""
    passed = shell("exec >&- 2>&-; sleep 0.2; exit 4", tmp_path / "out", tmp_path / "err")
    assert passed.exit_code == 4


def test_the_beginning_and_the_end_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """However it comes in, memory is bounded, and what is missing is marked."""
    monkeypatch.setattr(run_command_module, "HEAD_BYTES_MAX", 10)
    monkeypatch.setattr(run_command_module, "TAIL_BYTES_MAX", 10)
    for size in (1, 3, 7, 1000):
        kept = HeadTailBuffer()
        text = b"".join(b"%04d\n" % number for number in range(100))
        for start in range(0, len(text), size):
            kept.add(text[start : start + size])
        assert kept.text.startswith("0000\n0001\n[...]\n")
        assert kept.text.endswith("\n0099\n")
        assert len(kept.text) <= 10 + 7 + 20
    short = HeadTailBuffer()
    short.add(b"0123456789abc")
    assert short.text == "0123456789abc"


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_lines_that_are_cut_are_left_out(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a secret could not be distinguished from any other text."""
    monkeypatch.setattr(run_command_module, "HEAD_BYTES_MAX", 20)
    monkeypatch.setattr(run_command_module, "TAIL_BYTES_MAX", 20)
    for size in range(1, 30):
        kept = HeadTailBuffer()
        kept.add(f"first{end}{'a' * size}secret{end}{'b' * 100}secret{end}last{end}".encode())
        first, _, last = kept.text.partition("[...]\n")
        assert first.rstrip("\r\n") in ("first", f"first{end}{'a' * size}secret")
        assert last.strip("\r\n") == "last"
    endless = HeadTailBuffer()
    endless.add(b"x" * 1_000)
    assert endless.text == "[...]\n"


def test_h32_secrets_among_the_words_are_gone_before_they_are_one_line(tmp_path: Path) -> None:
    """In one line the end of a secret with spaces and quotes cannot be found."""
    words = ["true", "--token", "it's a b", "X_KEY=c d", "say hunter2hunter2", "--n=1"]
    with (tmp_path / "out").open("wb", buffering=0) as out:
        passed = run_command(words, out, out, redactor=Redactor(["hunter2hunter2"]))
    assert passed.cmd == "true --token [redacted] X_KEY=[redacted] 'say [redacted]' --n=1"


def test_bytes_that_are_no_text_are_kept_as_marks(tmp_path: Path) -> None:
    """They pass through as they are."""
    passed = shell(r"printf 'a\377b'", tmp_path / "out", tmp_path / "err")
    assert passed.stdout == "a\N{REPLACEMENT CHARACTER}b"
    assert (tmp_path / "out").read_bytes() == b"a\xffb"
