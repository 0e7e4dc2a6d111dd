"""The crash loop passes code that keeps its promises and catches code that does not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onceward.system.crash_points import Crashed
from onceward.testing import Acks, CrashFiles, run_with_crash_at_every_step

if TYPE_CHECKING:
    from onceward.system import Files

ROOT = Path("/")
LOG = ROOT / "log"
TEMPORARY = ROOT / "log.tmp"


def append(files: Files, acks: Acks[bytes], *, sync: bool = True, sync_name: bool = True) -> None:
    """Append three records and acknowledge each."""
    file = files.open_append(LOG)
    for record in (b"one\n", b"two\n", b"three\n"):
        file.write(record)
        if sync:
            file.sync()
        if sync_name:
            files.sync_directory(ROOT)
        acks.ack(record)


def every_acked_record_is_there(files: CrashFiles, acks: Acks[bytes]) -> None:
    found = read(files)
    assert (found or b"").startswith(b"".join(acks))


def overwrite(
    files: Files, acks: Acks[bytes], *, sync: bool = True, sync_name: bool = True
) -> None:
    """Replace the whole file through a temporary one and acknowledge it."""
    file = files.open_append(TEMPORARY)
    file.truncate(0)
    file.write(b"new" * 400)
    if sync:
        file.sync()
    file.close()
    files.replace(TEMPORARY, LOG)
    if sync_name:
        files.sync_directory(ROOT)
    acks.ack(b"new" * 400)


def file_is_old_or_new(files: CrashFiles, acks: Acks[bytes]) -> None:
    assert read(files) in (list(acks) or [b"old", b"new" * 400])


def old_file() -> CrashFiles:
    files = CrashFiles()
    file = files.open_append(LOG)
    file.write(b"old")
    file.sync()
    files.sync_directory(ROOT)
    return files


def read(files: Files) -> bytes | None:
    found = files.stat(LOG)
    return None if found is None else files.open_read(LOG).read(0, found.size)


def test_append_then_sync_survives_every_crash() -> None:
    """Record, content sync, name sync, acknowledgement: nothing acknowledged is ever lost."""
    count = run_with_crash_at_every_step(append, every_acked_record_is_there)
    assert count.steps == 11
    assert count.states > 100


@pytest.mark.parametrize("missing", ["sync", "sync_name"])
def test_append_without_a_sync_is_caught(missing: str) -> None:
    """An acknowledgement before either sync is found, and the note says where."""

    def wrong(files: Files, acks: Acks[bytes]) -> None:
        append(files, acks, sync=missing != "sync", sync_name=missing != "sync_name")

    with pytest.raises(AssertionError) as caught:
        run_with_crash_at_every_step(wrong, every_acked_record_is_there)
    notes = "\n".join(caught.value.__notes__)
    assert "having acknowledged [b'one\\n']" in notes
    assert "crash state 0 of seed 0" in notes
    assert "dropped" in notes


def test_overwrite_through_a_temporary_survives_every_crash() -> None:
    """The file is the old one or the new one, and the new one once acknowledged."""
    count = run_with_crash_at_every_step(overwrite, file_is_old_or_new, start=old_file)
    assert count.steps == 7


@pytest.mark.parametrize("missing", ["sync", "sync_name"])
def test_overwrite_without_a_sync_is_caught(missing: str) -> None:
    """Renaming an unsynced temporary is found, and so is an unsynced rename."""

    def wrong(files: Files, acks: Acks[bytes]) -> None:
        overwrite(files, acks, sync=missing != "sync", sync_name=missing != "sync_name")

    with pytest.raises(AssertionError):
        run_with_crash_at_every_step(wrong, file_is_old_or_new, start=old_file)


def test_stopped_scenario_cannot_tidy_up() -> None:
    """What a `finally` clause tries after the stop does not reach the disk."""
    seen: set[bytes | None] = set()

    def scenario(files: Files, _acks: Acks[bytes]) -> None:
        file = files.open_append(LOG)
        files.sync_directory(ROOT)
        try:
            file.write(b"half ")
            file.sync()
            file.write(b"whole ")
            file.sync()
        finally:
            file.write(b"tidied")

    run_with_crash_at_every_step(scenario, lambda files, _acks: seen.add(read(files)))
    assert {None, b"", b"half ", b"half whole ", b"half whole tidied"} <= seen
    assert not {b"tidied", b"half tidied"} & seen


def test_swallowed_stop_is_still_a_stop() -> None:
    """Code that catches everything does not end the loop early."""

    def scenario(files: Files, acks: Acks[bytes]) -> None:
        try:
            append(files, acks)
        except BaseException:  # noqa: BLE001 - the wrong that is done here on purpose
            return

    assert run_with_crash_at_every_step(scenario, every_acked_record_is_there).steps == 11


def test_endless_scenario_is_reported() -> None:
    """A scenario that never finishes within the limit fails instead of looping on."""
    with pytest.raises(AssertionError, match="still running after 5 operations"):
        run_with_crash_at_every_step(append, every_acked_record_is_there, steps_max=5)


def test_error_of_the_scenario_is_passed_on() -> None:
    """Only the stop is swallowed."""

    def scenario(files: Files, _acks: Acks[bytes]) -> None:
        files.open_append(LOG)
        message = "the scenario itself is broken"
        raise ValueError(message)

    with pytest.raises(ValueError, match="itself is broken"):
        run_with_crash_at_every_step(scenario, every_acked_record_is_there)


def test_crash_of_the_scenarios_own_is_passed_on() -> None:
    """A crash point that the scenario armed itself is not taken for the loop's stop."""

    def scenario(_files: Files, _acks: Acks[bytes]) -> None:
        raise Crashed

    with pytest.raises(Crashed):
        run_with_crash_at_every_step(scenario, every_acked_record_is_there)
