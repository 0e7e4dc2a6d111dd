"""The simulated disk loses what was not synced, in every way a real one may, and nothing else."""

from __future__ import annotations

import itertools
from pathlib import Path

from onceward.testing import CrashFiles
from tests.support.crash_file_contents import LOG, ROOT, content, contents, durable_log

SECTOR = 512


# --- content -------------------------------------------------------------------------------------


def test_running_code_sees_every_write_at_once() -> None:
    """The live view has everything applied, synced or not."""
    files = CrashFiles()
    files.open_append(LOG).write(b"one")
    files.open_append(LOG).write(b"two")
    assert content(files) == b"onetwo"


def test_unsynced_content_may_vanish_and_may_stay() -> None:
    """A write without a sync is lost in one crash state and kept in another."""
    files = CrashFiles()
    durable_log(files, b"old ").write(b"new")
    assert {b"old ", b"old new"} <= set(contents(files))


def test_synced_content_never_vanishes() -> None:
    """What was synced before the crash begins every file after it."""
    files = CrashFiles()
    durable_log(files, b"safe").write(b"x" * 2000)
    assert all(found is not None and found.startswith(b"safe") for found in contents(files))


def test_nothing_pending_leaves_one_state() -> None:
    """A disk with everything synced can only come back as it was."""
    files = CrashFiles()
    durable_log(files, b"safe")
    assert contents(files) == [b"safe"]


def test_three_pending_operations_give_all_eight_subsets() -> None:
    """Every combination of kept and dropped appears, each exactly once, before any damage."""
    files = CrashFiles()
    file = durable_log(files)
    for letter in (b"a", b"b", b"c"):
        file.write(letter)
    found = [content(state) for state in itertools.islice(files.crashes(), 8)]
    assert sorted(found, key=str) == sorted(
        [b"", b"a", b"\0b", b"ab", b"\0\0c", b"a\0c", b"\0bc", b"abc"], key=str
    )


def test_dropped_write_under_a_kept_one_leaves_zeros() -> None:
    """A hole reads as zeros, because the later write's place was fixed when it was issued."""
    files = CrashFiles()
    file = durable_log(files, b"head")
    file.write(b"lost")
    file.write(b"kept")
    assert b"head\0\0\0\0kept" in contents(files)


def test_writes_are_torn_only_at_sector_boundaries() -> None:
    """Of a torn write whole sectors survive, from its front or from its back."""
    files = CrashFiles()
    start, size = 100, 2000
    durable_log(files, b"s" * start).write(b"w" * size)
    seen: set[tuple[str, int]] = set()
    for state in itertools.chain.from_iterable(files.crashes(seed=seed) for seed in range(9)):
        found = content(state)
        assert found is not None
        if "torn" in state.description:
            kept = found[start:].count(b"w"[0])
            front = found[start] == b"w"[0]
            cut = start + kept if front else start + size - kept
            assert found == b"s" * start + (
                b"w" * kept if front else b"\0" * (size - kept) + b"w" * kept
            )
            assert cut % SECTOR == 0
            seen.add(("front" if front else "back", cut))
    assert seen == {(side, cut) for side in ("front", "back") for cut in (512, 1024, 1536, 2048)}


def test_write_inside_one_sector_is_never_torn() -> None:
    """A sector is written whole or not at all."""
    files = CrashFiles()
    durable_log(files, b"s" * 600).write(b"w" * 100)
    assert not any("torn" in state.description for state in files.crashes())


def test_garbage_stays_within_the_write() -> None:
    """Noise fills whole sectors of the pending write and spares its neighbours."""
    files = CrashFiles()
    durable_log(files, b"s" * 700).write(b"w" * 1000)
    noisy = [content(state) for state in files.crashes() if "garbage" in state.description]
    assert noisy
    for found in noisy:
        assert found is not None
        assert len(found) == 1700
        assert found[:700] == b"s" * 700
        parts = (found[700:1024], found[1024:1536], found[1536:])
        assert any(part != b"w" * len(part) for part in parts)


def test_size_may_survive_without_the_data() -> None:
    """A file may have grown although only zeros reached the disk."""
    files = CrashFiles()
    durable_log(files, b"safe").write(b"data")
    assert b"safe\0\0\0\0" in contents(files)


def test_truncate_is_pending_until_synced() -> None:
    """A cut may be undone by a crash before the sync, and not after it."""
    files = CrashFiles()
    file = durable_log(files, b"0123456789")
    file.truncate(4)
    assert content(files) == b"0123"
    assert set(contents(files)) == {b"0123456789", b"0123"}
    file.sync()
    assert contents(files) == [b"0123"]


def test_sync_covers_one_file_only() -> None:
    """Syncing one file makes no other file durable."""
    files = CrashFiles()
    durable_log(files).write(b"data")
    other = files.open_append(ROOT / "other")
    other.sync()
    assert b"" in contents(files)


# --- names ---------------------------------------------------------------------------------------


def test_unsynced_name_may_vanish_although_its_content_was_synced() -> None:
    """Syncing a new file does not sync the directory that names it."""
    files = CrashFiles()
    file = files.open_append(LOG)
    file.write(b"data")
    file.sync()
    assert set(contents(files)) == {None, b"data"}
    files.sync_directory(ROOT)
    assert contents(files) == [b"data"]


def test_replace_is_all_or_nothing() -> None:
    """After a crash the target is the old file or the new one, and the temporary agrees."""
    files = CrashFiles()
    durable_log(files, b"old")
    temporary = ROOT / "tmp"
    file = files.open_append(temporary)
    file.write(b"new")
    file.sync()
    files.sync_directory(ROOT)
    files.replace(temporary, LOG)
    found = {(content(state), content(state, temporary)) for state in files.crashes()}
    assert found == {(b"old", b"new"), (b"new", None)}


def test_replace_by_an_unsynced_file_may_leave_it_empty() -> None:
    """The new name can reach the disk before the content does."""
    files = CrashFiles()
    durable_log(files, b"old")
    temporary = ROOT / "tmp"
    files.open_append(temporary).write(b"new")
    files.replace(temporary, LOG)
    files.sync_directory(ROOT)
    found = contents(files)
    assert b"" in found
    assert b"old" not in found


def moved() -> tuple[CrashFiles, Path, Path]:
    """Files in which `m` was moved from one directory to another, not synced yet."""
    files = CrashFiles()
    inbox, done = ROOT / "inbox", ROOT / "done"
    for directory in (inbox, done):
        files.make_directories(directory)
    files.open_append(inbox / "m")
    files.sync_directory(inbox)
    files.replace(inbox / "m", done / "m")
    return files, inbox, done


def test_replace_across_directories_needs_both_synced() -> None:
    """A step between two directories may be undone until both of them were synced."""
    files, inbox, done = moved()
    files.sync_directory(done)

    def places() -> set[tuple[bool, bool]]:
        return {
            (state.stat(inbox / "m") is not None, state.stat(done / "m") is not None)
            for state in files.crashes()
        }

    assert places() == {(True, False), (False, True)}
    files.sync_directory(inbox)
    assert places() == {(False, True)}


def test_later_steps_stay_after_a_step_across_directories() -> None:
    """A removal that was synced does not come undone by the earlier move that was not."""
    files, inbox, done = moved()
    files.remove(done / "m")
    files.sync_directory(done)
    assert all(state.stat(done / "m") is None for state in files.crashes())
    files.sync_directory(inbox)
    assert [state.stat(inbox / "m") for state in files.crashes()] == [None]


def test_synced_steps_keep_their_place_among_pending_ones() -> None:
    """A name that was durably given, after a pending move, can still be taken away later."""
    files, _, done = moved()
    files.open_append(done / "x")
    files.sync_directory(done)
    files.remove(done / "x")
    assert len(files.pending) == 2
    assert [files.crash(index=index).stat(done / "x") is None for index in range(4)] == [
        False,
        False,
        True,
        True,
    ]


def test_removed_file_may_come_back_until_its_directory_is_synced() -> None:
    """A removal is a pending change of names like any other."""
    files = CrashFiles()
    durable_log(files, b"data")
    files.remove(LOG)
    assert content(files) is None
    assert set(contents(files)) == {None, b"data"}
    files.sync_directory(ROOT)
    assert contents(files) == [None]


def test_made_directories_are_durable() -> None:
    """Each level is synced before the next, so none of them is pending afterwards."""
    files = CrashFiles()
    files.make_directories(ROOT / "a" / "b" / "c")
    assert files.pending == []
    assert files.crash().stat(ROOT / "a" / "b" / "c") is not None


def test_file_keeps_its_identity_through_a_crash() -> None:
    """The same file has the same identity after a reboot, and a new file another one."""
    files = CrashFiles()
    before = durable_log(files, b"data").stat()
    state = files.crash()
    after = state.stat(LOG)
    assert after is not None
    assert after.identity == before.identity
    assert state.open_append(ROOT / "fresh").stat().identity != before.identity
