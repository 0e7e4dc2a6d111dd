"""The audit sees a promise that is made before the disk can keep it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onceward.errors import FileRefused
from onceward.system import SystemFiles
from onceward.testing import AuditedFiles, CrashFiles

if TYPE_CHECKING:
    from onceward.system import Files, OpenFile


@pytest.fixture(params=["crash", "system"])
def inner(request: pytest.FixtureRequest) -> Files:
    return CrashFiles() if request.param == "crash" else SystemFiles()


@pytest.fixture
def root(tmp_path: Path, inner: Files) -> Path:
    inner.make_directories(tmp_path)
    return tmp_path


@pytest.fixture
def files(inner: Files) -> AuditedFiles:
    return AuditedFiles(inner)


@pytest.fixture
def log(root: Path) -> Path:
    return root / "log"


def durable(files: AuditedFiles, path: Path) -> OpenFile:
    file = files.open_append(path)
    files.sync_directory(path.parent)
    return file


def test_ack_after_both_syncs_passes(files: AuditedFiles, log: Path) -> None:
    """Write, sync, directory sync, ack: the stream shows them in that order."""
    file = files.open_append(log)
    file.write(b"data")
    file.sync()
    files.sync_directory(log.parent)
    files.ack(log)
    kinds = [event.kind for event in files.audit.events]
    assert kinds == ["create", "write", "sync", "sync_directory", "ack"]


def test_ack_before_sync_is_caught(files: AuditedFiles, log: Path) -> None:
    """The message names the write that was not synced."""
    durable(files, log).write(b"data")
    with pytest.raises(AssertionError, match=r"before it was durable: write .*log \(4 bytes\)$"):
        files.ack(log)


def test_write_after_the_sync_is_caught(files: AuditedFiles, log: Path) -> None:
    """A sync covers only what came before it."""
    file = durable(files, log)
    file.write(b"first part, ")
    file.sync()
    file.write(b"second part")
    with pytest.raises(AssertionError, match=r"log \(11 bytes\)$"):
        files.ack(log)


def test_truncate_without_sync_is_caught(files: AuditedFiles, log: Path) -> None:
    """Cutting a file is a change like a write."""
    durable(files, log).truncate(0)
    with pytest.raises(AssertionError, match="truncate"):
        files.ack(log)


def test_sync_that_began_before_the_write_finished_is_caught(log: Path) -> None:
    """A sync from another thread in the middle of a write does not cover it."""
    crash_files = CrashFiles()
    crash_files.make_directories(log.parent)
    files = AuditedFiles(crash_files)
    writer = durable(files, log)
    syncer = files.open_read(log)

    def sync_in_the_middle(what: str, _number: int) -> None:
        if what.startswith("write"):
            syncer.sync()

    crash_files.on_operation = sync_in_the_middle
    writer.write(b"data")
    with pytest.raises(AssertionError, match="write"):
        files.ack(log)


def test_created_name_without_directory_sync_is_caught(files: AuditedFiles, log: Path) -> None:
    """A new file's content is synced, but the directory does not name it durably yet."""
    file = files.open_append(log)
    file.write(b"data")
    file.sync()
    with pytest.raises(AssertionError, match=r"durable: create .*log$"):
        files.ack(log)


def test_renamed_name_without_directory_sync_is_caught(
    files: AuditedFiles, log: Path, root: Path
) -> None:
    """A rename is not durable until the directory is synced."""
    durable(files, root / "tmp").sync()
    files.replace(root / "tmp", log)
    with pytest.raises(AssertionError, match=r"replace .*log \(by .*tmp\)$"):
        files.ack(log)
    files.sync_directory(root)
    files.ack(log)


def test_unsynced_temporary_renamed_over_the_target_is_caught(
    files: AuditedFiles, log: Path, root: Path
) -> None:
    """The content came under another name, and is still not on disk."""
    durable(files, log)
    durable(files, root / "tmp").write(b"data")
    files.replace(root / "tmp", log)
    files.sync_directory(root)
    with pytest.raises(AssertionError, match=r"write .*tmp"):
        files.ack(log)


def test_move_between_directories_needs_both_synced(
    files: AuditedFiles, root: Path, log: Path
) -> None:
    """A move is one step in two directories, and an ack needs the whole step."""
    files.make_directories(root / "done")
    durable(files, log)
    files.replace(log, root / "done" / "log")
    files.sync_directory(root / "done")
    with pytest.raises(AssertionError, match="replace"):
        files.ack(root / "done" / "log")
    files.sync_directory(root)
    files.ack(root / "done" / "log")


def test_renamed_directory_above_the_file_is_caught(files: AuditedFiles, root: Path) -> None:
    """A file is only as durable as the names that lead to it."""
    files.make_directories(root / "a")
    durable(files, root / "a" / "log").sync()
    files.replace(root / "a", root / "b")
    files.sync_directory(root / "b")
    with pytest.raises(AssertionError, match=r"replace .*b \(by .*a\)$"):
        files.ack(root / "b" / "log")


def test_sync_of_the_wrong_file_is_caught(files: AuditedFiles, root: Path, log: Path) -> None:
    """Another file's sync proves nothing about this one."""
    durable(files, log).write(b"data")
    durable(files, root / "other").sync()
    with pytest.raises(AssertionError, match="write"):
        files.ack(log)


def test_sync_of_the_wrong_directory_is_caught(files: AuditedFiles, root: Path, log: Path) -> None:
    """The parent's parent does not name the file."""
    files.open_append(log).sync()
    files.sync_directory(root.parent)
    with pytest.raises(AssertionError, match="create"):
        files.ack(log)


@pytest.mark.parametrize("written", ["before", "after"])
def test_sync_of_another_file_with_the_same_name_is_caught(
    files: AuditedFiles, root: Path, log: Path, written: str
) -> None:
    """The file was replaced; syncing its successor does not sync what was written to it."""
    old = durable(files, log)
    durable(files, root / "tmp").sync()
    if written == "before":
        old.write(b"data")
    files.replace(root / "tmp", log)
    files.sync_directory(root)
    if written == "after":
        old.write(b"data")
    files.open_append(log).sync()
    with pytest.raises(AssertionError, match="write"):
        files.ack(log)


def test_failed_sync_covers_nothing(log: Path) -> None:
    """A sync that raised leaves the write un-synced."""
    crash_files = CrashFiles()
    crash_files.make_directories(log.parent)
    files = AuditedFiles(crash_files)
    file = durable(files, log)
    file.write(b"data")
    crash_files.fail("sync")
    with pytest.raises(FileRefused):
        file.sync()
    with pytest.raises(AssertionError, match="write"):
        files.ack(log)


def test_ack_depends_on_its_own_paths_only(files: AuditedFiles, root: Path, log: Path) -> None:
    """Un-synced work on other files is not part of the acknowledgement."""
    durable(files, log).sync()
    files.open_append(root / "other").write(b"data")
    files.ack(log)
    with pytest.raises(AssertionError, match="other"):
        files.ack(log, root / "other")


def test_removal_is_acked_after_its_directory_was_synced(
    files: AuditedFiles, root: Path, log: Path
) -> None:
    """What was written to a removed file matters no more, but its name does."""
    durable(files, log).write(b"data")
    files.remove(log)
    with pytest.raises(AssertionError, match=r"durable: remove .*log$"):
        files.ack(log)
    files.sync_directory(root)
    files.ack(log)


def test_reader_can_sync_what_a_writer_wrote(files: AuditedFiles, log: Path) -> None:
    """Any descriptor of the file will do."""
    durable(files, log).write(b"data")
    files.open_read(log).sync()
    files.ack(log)
