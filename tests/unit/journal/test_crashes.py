"""The journal and atomic replacement on a disk that loses its power between any two operations."""

import errno
from contextlib import closing
from pathlib import Path

import pytest

from onceward.errors import FileRefused, OutcomeUnknown, StorageError
from onceward.journal import Journal, atomic_file
from onceward.system import Files
from onceward.system.crash_points import Crashed
from onceward.testing import Acks, AuditedFiles, CrashFiles, run_with_crash_at_every_step

PATH = Path("/home/me/.cm/feedback/feedback.jsonl")
#: Small, over a sector, over several, and two in one write.
RECORDS = [
    [{"id": "1"}],
    [{"id": "2", "notes": "x" * 700}],
    [{"id": "3", "notes": "y" * 100}, {"id": "4", "notes": "z" * 1500}],
]
ALL = {record["id"]: record for records in RECORDS for record in records}


def ids(journal: Journal) -> list[str]:
    return [item["id"] for item in journal.read().items]


def append_all(files: Files, acks: Acks[str]) -> None:
    journal = Journal(PATH, files=files)
    for records in RECORDS:
        journal.append(*records)
        for record in records:
            acks.ack(record["id"])


def check_journal(files: CrashFiles, acks: Acks[str]) -> None:
    """What was acknowledged is there, once, whole, in order; and the journal goes on."""
    journal = Journal(PATH, files=files)
    items = journal.read().items
    found = [item["id"] for item in items]
    assert found[: len(acks)] == list(acks)
    assert found == sorted(set(found))
    assert all(item == ALL[item["id"]] for item in items)
    journal.append({"id": "5"})
    assert ids(journal) == [*found, "5"]
    assert journal.verify().torn_bytes == 0


@pytest.mark.prove
def test_no_acknowledged_record_is_lost_and_no_torn_one_returned(prove: bool, soak: bool) -> None:
    """A crash before every operation of several appends; kept, dropped, torn, garbage."""
    states = 0
    for seed in range(500 if soak else 100 if prove else 10):
        count = run_with_crash_at_every_step(append_all, check_journal, seed=seed)
        assert count.steps > 15
        states += count.states
    assert states > (50_000 if soak else 10_000 if prove else 1000)


def test_records_after_a_torn_line_survive() -> None:
    """The mending newline and its record are one write; a crash leaves both or a torn line."""

    def torn() -> CrashFiles:
        files = CrashFiles()
        files.make_directories(PATH.parent)
        with closing(files.open_append(PATH)) as file:
            file.write(b'{"id":"torn","x":"half')
            file.sync()
        files.sync_directory(PATH.parent)
        return files

    assert run_with_crash_at_every_step(append_all, check_journal, start=torn).states > 100


def test_a_crash_during_recovery_is_a_crash_like_any_other() -> None:
    """Crash, append again, crash at every step of that: the first acknowledgements still hold."""
    for step in range(1, 40):
        files = CrashFiles()
        acks: Acks[str] = Acks()

        def stop(what: str, number: int, step: int = step) -> None:
            if number >= step:
                raise Crashed(what)

        files.on_operation = stop
        try:
            append_all(files, acks)
        except Crashed:
            pass
        else:
            return
        for state in files.crashes(limit=40, seed=step):
            before = list(acks)
            again: Acks[str] = Acks()
            Journal(PATH, files=state).append({"id": "again"})
            again.ack("again")
            for later in state.crashes(limit=20):
                found = ids(Journal(PATH, files=later))
                assert found[: len(before)] == before, later.description
                assert found[-1] == "again", later.description
    pytest.fail("the scenario never finished")


@pytest.mark.prove
def test_no_cursor_is_ahead_of_what_survived(prove: bool, soak: bool) -> None:
    """A cursor given to a client fits every disk that a crash may leave, with its tag."""

    def write_without_sync_and_read(files: Files, acks: Acks[tuple[str, str]]) -> None:
        writer, reader = Journal(PATH, files=files, sync=False), Journal(PATH, files=files)
        since = "0"
        for records in RECORDS:
            writer.append(*records)
            page = reader.read(since)
            acks.ack((page.next_cursor, page.tag))
            since = page.next_cursor
        acks.ack(reader.end())

    def check(files: CrashFiles, acks: Acks[tuple[str, str]]) -> None:
        journal = Journal(PATH, files=files)
        for cursor, tag in acks:
            journal.read(cursor, tag=tag)

    states = 0
    for seed in range(500 if soak else 100 if prove else 10):
        states += run_with_crash_at_every_step(write_without_sync_and_read, check, seed=seed).states
    assert states > (50_000 if soak else 10_000 if prove else 1000)


def test_a_cursor_is_synced_again_after_the_file_was_cut_and_regrew() -> None:
    """What a reader knew of a file that was truncated since proves nothing about its new bytes."""
    files = CrashFiles()
    journal = Journal(PATH, files=files)
    journal.append({"id": "1", "notes": "x" * 300})
    journal.read()
    with closing(files.open_append(PATH)) as file:
        file.truncate(0)
        file.write(b'{"id":"2"}\n')
    page = journal.read()
    for state in files.crashes():
        assert Journal(PATH, files=state).read(page.next_cursor, tag=page.tag).items == []


def test_directories_of_a_dead_process_are_synced_too() -> None:
    """The process that made the directories died before syncing: the next writer syncs them."""

    def make(files: Files, acks: Acks[str]) -> None:
        del acks
        files.make_directories(PATH.parent)

    for step in range(1, 20):
        files = CrashFiles()

        def stop(what: str, number: int, step: int = step) -> None:
            if number >= step:
                raise Crashed(what)

        files.on_operation = stop
        try:
            make(files, Acks())
        except Crashed:
            done = False
        else:
            done = True
        successor = files.killed()
        Journal(PATH, files=successor).append({"id": "1"})
        for state in successor.crashes():
            assert ids(Journal(PATH, files=state)) == ["1"], state.description
        if done:
            return


def test_nothing_is_acknowledged_before_it_is_synced() -> None:
    """The audit of every append, read and replacement finds nothing un-synced."""
    files = AuditedFiles(CrashFiles())
    journal = Journal(PATH, files=files)
    for records in RECORDS:
        journal.append(*records)
        files.ack(PATH)
    journal.read()
    files.ack(PATH)
    state = PATH.parent / "state" / "run.json"
    for content in (b"one", b"two" * 1000):
        atomic_file.write(state, content, files=files)
        files.ack(state)
    kinds = {event.kind for event in files.audit.events}
    assert {"create", "write", "sync", "replace", "sync_directory", "ack"} <= kinds


def test_the_audit_would_notice_a_missing_sync() -> None:
    """The check above can fail: without syncing it does."""
    files = AuditedFiles(CrashFiles())
    Journal(PATH, files=files, sync=False).append({"id": "1"})
    with pytest.raises(AssertionError, match="acknowledged before it was durable"):
        files.ack(PATH)


def test_replacement_leaves_the_old_or_the_new() -> None:
    """A crash before every operation of two replacements: one of the contents, whole."""
    contents = [b"a" * 1300, b"b" * 700]
    target = Path("/home/me/state/run.json")

    def replace(files: Files, acks: Acks[bytes]) -> None:
        for content in contents:
            atomic_file.write(target, content, files=files)
            acks.ack(content)

    def check(files: CrashFiles, acks: Acks[bytes]) -> None:
        found = None
        if files.stat(target) is not None:
            with closing(files.open_read(target)) as file:
                found = file.read(0, 10_000)
        last = acks[-1] if acks else None
        assert found in (last, *contents[len(acks) : len(acks) + 1])
        atomic_file.write(target, b"after", files=files)
        with closing(files.open_read(target)) as file:
            assert file.read(0, 100) == b"after"

    count = run_with_crash_at_every_step(replace, check)
    assert count.states > 100


@pytest.mark.parametrize("operation", ["write", "sync", "sync_directory"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_every_failing_operation_is_reported_and_loses_nothing_acknowledged(
    operation: str, error: int
) -> None:
    """The nth write or sync fails, n = 1, 2, … until none is hit: a clear error, nothing lost."""
    hits = 0
    for nth in range(1, 20):
        files = CrashFiles()
        files.fail(operation, nth=nth, error=error)  # type: ignore[arg-type]  # a parameter of ours
        acks: Acks[str] = Acks()
        failure: StorageError | None = None
        try:
            append_all(files, acks)
        except StorageError as exc:
            failure = exc
        for state in files.crashes(limit=200):
            check_journal(state, acks)
        if failure is None:
            break
        hits += 1
        if operation == "sync":
            assert isinstance(failure, OutcomeUnknown)
            with pytest.raises(FileRefused):
                Journal(PATH, files=files).append({"id": "more"})
    assert hits >= (3 if operation != "sync_directory" else 1)
