"""Offline buffer: records on disk, in order, while the store is unavailable.

One file per record, so a record is complete or absent; the file name has its position, size and
key, so equal records are stored once. The size is bounded. Replaying a record must be idempotent.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from onceward.errors import (
    FileMissing,
    OncewardError,
    SqlFailed,
    StorageError,
    StoreError,
    StoreUnavailable,
)
from onceward.journal import atomic_file
from onceward.journal.file_lock import open_locked, unlock_and_close
from onceward.memory.memory_calls import log_event
from onceward.system import Clock, Files, OpenFile, SystemClock, SystemFiles, find_openers

RECORDS_MAX: Final = 10_000
BYTES_MAX: Final = 64 * 1024 * 1024
#: Subdirectory for records that the store rejected at their replay.
REJECTED_DIRECTORY: Final = "refused"
#: How long an append waits for the lock; the process that holds it may be suspended.
APPEND_SECONDS_MAX: Final = 10.0
_LOCK_POLL_SECONDS: Final = 0.005
_KEY_CHARACTERS: Final = 32

BufferedCall = Mapping[str, Any]


def directory_for(home: Path, address: str) -> Path:
    """Return the buffer directory of a store; two stores never share one."""
    return home / "memory-buffer" / hashlib.sha256(address.encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True, slots=True)
class _PendingRecord:
    """One buffered record, parsed from its file name."""

    name: str
    place: int
    size: int
    key: str


class Buffer:
    """Buffered records of one store, shared by all processes that use it."""

    def __init__(
        self,
        directory: Path,
        *,
        files: Files | None = None,
        clock: Clock | None = None,
        records_max: int = RECORDS_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        """Use this directory; it is created with the first record."""
        self.directory = directory
        self._files = files or SystemFiles()
        self._clock = clock or SystemClock()
        self._records_max, self._bytes_max = records_max, bytes_max

    def pending(self) -> int:
        """Return the number of buffered records."""
        return len(self._pending_records())

    def append(self, call: BufferedCall, identity: object) -> bool:
        """Store a record durably; return False if one with the same identity is buffered already.

        Raises StoreUnavailable if the buffer is full, or another process holds its lock longer than
        `APPEND_SECONDS_MAX`. Nothing is stored then.
        """
        # A command line may contain bytes that are not valid Unicode.
        data = json.dumps(call, ensure_ascii=False).encode(errors="replace")
        plain = json.dumps(identity, ensure_ascii=False, sort_keys=True).encode(errors="replace")
        key = hashlib.sha256(plain).hexdigest()[:_KEY_CHARACTERS]
        with self._locked(".append", wait_seconds=APPEND_SECONDS_MAX) as is_ours:
            if not is_ours:
                path = self.directory / ".append"
                message = (
                    "nothing was recorded: another process has locked the memory's offline buffer, "
                    f"{path}, for over {APPEND_SECONDS_MAX:g} s"
                )
                fix = (
                    f"`{find_openers(path)}` prints /proc/PID/fd of each process that has it open; "
                    "resume or end the one that is suspended (state T in ps), then try again"
                )
                raise StoreUnavailable(message, fix=fix)
            waiting = self._pending_records()
            if any(each.key == key for each in waiting):
                return False
            size = len(data) + sum(each.size for each in waiting)
            if len(waiting) >= self._records_max or size > self._bytes_max:
                count = len(waiting)
                message = (
                    "nothing was recorded: the store is unavailable, and the memory's offline "
                    f"buffer is full with {count} records ({size - len(data)} bytes)"
                )
                fix = (
                    "make the store available again; the records, in "
                    f"{self.directory}, are then written to it; then try again"
                )
                raise StoreUnavailable(message, fix=fix)
            place = max((each.place for each in waiting), default=0) + 1
            name = f"{place:012d}-{len(data)}-{key}.json"
            atomic_file.write(self.directory / name, data, files=self._files)
            return True

    def replay(
        self, do: Callable[[BufferedCall], object], *, seconds_max: float | None = None
    ) -> int:
        """Write every record in order and delete it; return how many, 0 if another process does it.

        Stops with the error if the store is unavailable. A record that the store rejects
        permanently is moved to `refused` and logged, so that it does not block the others. No
        record is started after `seconds_max`, because other processes may keep adding records.
        """
        done, is_ours, began = 0, True, self._clock.monotonic()
        # Check again after the lock is released: a process that found the lock held may have added
        # a record since the last check.
        while is_ours:
            with self._locked(".replay") as is_ours:
                while is_ours and (waiting := self._pending_records()):
                    for each in waiting:
                        spent = self._clock.monotonic() - began
                        if seconds_max is not None and spent >= seconds_max:
                            return done
                        self._replay_one(each.name, do)
                        done += 1
        return done

    def _replay_one(self, name: str, do: Callable[[BufferedCall], object]) -> None:
        path = self.directory / name
        try:
            do(json.loads(self._read(path)))
        except Exception as exc:
            is_away = isinstance(exc, (StoreError, StorageError)) and not isinstance(exc, SqlFailed)
            if is_away:  # The store or the disk failed, not the record.
                raise
            self._files.make_directories(self.directory / REJECTED_DIRECTORY)
            self._files.replace(path, self.directory / REJECTED_DIRECTORY / name)
            code = exc.code if isinstance(exc, OncewardError) else type(exc).__name__
            log_event(logging.WARNING, "buffer.refused", {"key": name, "error": code})
        else:
            # After a crash here the record is replayed again, which is idempotent.
            self._files.remove(path)
        self._files.sync_directory(self.directory)

    def _read(self, path: Path) -> bytes:
        try:
            opened = self._files.open_read(path)
        except FileMissing as exc:  # The directory was emptied by hand.
            message = f"{path.name}: does not exist"
            raise ValueError(message) from exc
        with closing(opened) as file:
            return file.read(0, self._bytes_max + 1)

    def _pending_records(self) -> list[_PendingRecord]:
        found: list[_PendingRecord] = []
        for name in self._files.names(self.directory):
            place, _, rest = name.removesuffix(".json").partition("-")
            size, _, key = rest.partition("-")
            if name.endswith(".json") and place.isdigit() and size.isdigit() and key:
                found.append(_PendingRecord(name=name, place=int(place), size=int(size), key=key))
        return sorted(found, key=lambda each: each.place)

    @contextmanager
    def _locked(self, name: str, *, wait_seconds: float | None = None) -> Iterator[bool]:
        """Hold a lock file of this directory; yield whether it was acquired in time."""
        if wait_seconds is None and not self._pending_records():
            yield False  # Nothing to replay, and perhaps no directory.
            return
        deadline = self._clock.monotonic() + (wait_seconds or 0.0)
        is_ours = False

        def take(file: OpenFile) -> None:
            nonlocal is_ours
            # Poll with a deadline: the process that holds the lock may be suspended.
            while not (is_ours := file.try_lock()) and self._clock.monotonic() < deadline:
                self._clock.sleep(_LOCK_POLL_SECONDS)

        file, _ = open_locked(self.directory / name, self._files, take=take)
        try:
            yield is_ours
        finally:
            if is_ours:
                unlock_and_close(file)
            else:
                file.close()
