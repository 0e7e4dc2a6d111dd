"""Process identity: dead is only what certainly ended; what cannot be read is not dead."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.system import ProcessIdentity, SystemClock, process_identity, process_stat
from tests.support import namespaces

#: Prints, for each identity on its command line, whether it is dead.
LOOK = """
import json, sys
from onceward.system import ProcessIdentity
print(json.dumps([ProcessIdentity.from_holder(each).is_dead() for each in sys.argv[1:]]))
"""
texts = st.text(st.characters(categories=("L", "N", "P"), exclude_characters="/."), min_size=1)
identities = st.builds(
    ProcessIdentity,
    host=st.text(st.characters(categories=("L", "N", "P")), min_size=1),
    boot_id=texts,
    pid_namespace=st.integers(0, 2**32),
    pid=st.integers(1, 2**31 - 1),
    started_ticks=st.integers(0, 2**63),
)


@pytest.fixture
def living() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that lives until the test ends."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def seen_from(prefix: tuple[str, ...], *processes: ProcessIdentity) -> list[bool]:
    words = [*prefix, sys.executable, "-c", LOOK, *(each.holder("x") for each in processes)]
    found = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    assert isinstance(found, list)
    return found


def test_a_process_of_an_unknown_boot_is_not_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the boot id cannot be read (`ProcSubset=pid`), two unknown boots are not the same."""
    gone = subprocess.Popen(["true"])
    known = ProcessIdentity.of_child(gone.pid)
    gone.wait()
    assert known.is_dead()

    def unreadable(_: SystemClock) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(SystemClock, "boot_id", unreadable)
    own = ProcessIdentity.own()
    assert ProcessIdentity.from_holder(own.holder("x")) == own
    assert not own.is_in_this_namespace()
    for each in (known, own, replace(known, boot_id=own.boot_id)):
        assert not each.is_dead()


def test_a_process_is_dead_when_it_was_reaped_or_its_pid_is_anothers(
    living: subprocess.Popen[bytes],
) -> None:
    """And alive before, stopped or not; a zombie is not known to be dead."""
    own, child = ProcessIdentity.own(), ProcessIdentity.of_child(living.pid)
    assert own.pid == os.getpid()
    assert child.started_ticks > 0
    assert not own.is_dead()
    assert not child.is_dead()
    assert replace(child, started_ticks=child.started_ticks - 1).is_dead()
    assert not replace(child, started_ticks=0).is_dead()
    living.kill()
    os.waitid(os.P_PID, living.pid, os.WEXITED | os.WNOWAIT)
    assert not child.is_dead()
    living.wait()
    assert child.is_dead()
    assert replace(child, started_ticks=0).is_dead()


@pytest.mark.parametrize(
    "change", [{"host": "other"}, {"boot_id": "other"}, {"pid_namespace": 1}, {"pid_namespace": 0}]
)
def test_h69_a_process_of_elsewhere_is_never_dead(change: dict[str, object]) -> None:
    """Its pid means nothing here, whether a process has it or not."""
    for ticks in (1, ProcessIdentity.own().started_ticks):
        for pid in (os.getpid(), 2**22 + 1):
            known = replace(ProcessIdentity.own(), pid=pid, started_ticks=ticks)
            assert known.is_dead() is (known != ProcessIdentity.own())
            assert not replace(known, **change).is_dead()  # type: ignore[arg-type]


@pytest.mark.usefixtures("elsewhere")
def test_h69_processes_elsewhere_are_never_taken_for_dead(
    living: subprocess.Popen[bytes],
) -> None:
    """In another pid namespace and on another boot, nothing of here is dead."""
    gone = replace(ProcessIdentity.own(), pid=2**22 + 1)
    processes = (ProcessIdentity.of_child(living.pid), ProcessIdentity.own(), gone)
    for place in (namespaces.pid_namespace(), namespaces.another_boot()):
        assert seen_from(place, *processes) == [False, False, False]


@pytest.mark.usefixtures("elsewhere")
def test_h69_what_hidepid_hides_is_alive_and_what_is_gone_is_dead(
    living: subprocess.Popen[bytes],
) -> None:
    """Another user sees no process in /proc, but the kernel says which pids exist."""
    child = ProcessIdentity.of_child(living.pid)
    assert seen_from(namespaces.hidepid(), child, replace(child, started_ticks=1)) == [False] * 2
    living.kill()
    living.wait()
    assert seen_from(namespaces.hidepid(), child) == [True]


@pytest.mark.usefixtures("elsewhere")
def test_h69_a_proc_of_another_namespace_is_not_asked(living: subprocess.Popen[bytes]) -> None:
    """A new pid namespace may see the old one's /proc: its numbers are other processes."""
    script = """
import subprocess, sys
from onceward.system import ProcessIdentity, process_stat
own = ProcessIdentity.own()
assert own.started_ticks > 0 and not own.is_dead(), own
with subprocess.Popen(["sleep", "600"]) as child:
    found = ProcessIdentity.of_child(child.pid)
    assert found.started_ticks == 0 and not found.is_dead(), found
    child.kill()
assert found.is_dead() and process_stat(int(sys.argv[1])) is None
"""
    bare = [word for word in namespaces.pid_namespace() if word != "--mount-proc"]
    subprocess.run([*bare, sys.executable, "-c", script, str(living.pid)], check=True)
    assert process_stat(living.pid) is not None


def test_ticks_of_another_time_namespace_are_not_compared(
    living: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel shows start ticks in the time namespace of the reader."""
    child = replace(ProcessIdentity.of_child(living.pid), started_ticks=1)
    assert child.is_dead()
    monkeypatch.setattr(process_identity, "_has_our_time", lambda _: False)
    assert not child.is_dead()


def test_names_of_processes_do_not_confuse(tmp_path: Path) -> None:
    """A program whose name holds parentheses and spaces is read like any other."""
    program = tmp_path / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"], start_new_session=True) as process:
        found = process_stat(process.pid)
        process.kill()
    assert found
    assert (found.pid, found.group) == (process.pid, process.pid)
    assert found.started_ticks > 1000


@given(identities, texts)
def test_an_identity_comes_back_from_its_texts(process: ProcessIdentity, suffix: str) -> None:
    """From the name of a holder and from a record."""
    assert ProcessIdentity.from_holder(process.holder(suffix)) == process
    assert ProcessIdentity.from_fields(process.to_fields()) == process


@pytest.mark.parametrize(
    "holder",
    ["", "w1", "host/7/a1b2c3d4", "host:1", "host/0/b.1.2.x", "host/2147483648/b.1.2.x", "//...x"],
)
def test_names_of_another_form_name_no_process(holder: str) -> None:
    """Such as those that people give their workers."""
    assert ProcessIdentity.from_holder(holder) is None


def test_records_that_lack_a_field_name_no_process() -> None:
    """Neither do those in which it is something else."""
    values: list[object] = [None, -1, True, 1.0, [], 2**80]
    for field in ["host", "boot_id", "pid_namespace", "pid", "started_ticks"]:
        for value in values:
            found = ProcessIdentity.from_fields({**ProcessIdentity.own().to_fields(), field: value})
            is_number = value == 2**80 and field in ("pid_namespace", "started_ticks")
            assert (found is not None) == is_number, (field, value)  # A number, if of nothing here.
