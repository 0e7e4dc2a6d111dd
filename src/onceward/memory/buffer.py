"""Buffer: records that wait on disk, in order, while the store is away.

One file for each record, whose name has its place in the order, its size and its key; so a record
is there whole or not at all, and twice the same is there once. Bounded. Knows no store: who replays
a record says what that means, and repeating it must change nothing.
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
from onceward.journal import atomic
from onceward.journal.locked import give_back, open_locked
from onceward.memory.log_events import log_event
from onceward.seams import Clock, Files, OpenFile, SystemClock, SystemFiles

RECORDS_MAX: Final = 10_000
BYTES_MAX: Final = 64 * 1024 * 1024
#: Where records are put that the store refused when they were replayed.
REFUSED: Final = "refused"
#: How long a record waits for another process that keeps one; that one may be stopped.
APPEND_SECONDS_MAX: Final = 10.0
_LOOK_SECONDS: Final = 0.005
_KEY_CHARACTERS: Final = 32

Call = Mapping[str, Any]


def directory_for(home: Path, address: str) -> Path:
    """Return where the records for a store wait; two stores never share a directory."""
    return home / "memory-buffer" / hashlib.sha256(address.encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Waiting:
    """One record, as its file's name says."""

    name: str
    place: int
    size: int
    key: str


class Buffer:
    """Records on disk, shared by all processes that use one store."""

    def __init__(
        self,
        directory: Path,
        *,
        files: Files | None = None,
        clock: Clock | None = None,
        records_max: int = RECORDS_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        """Keep records in this directory; it is made when the first one comes."""
        self.directory = directory
        self._files = files or SystemFiles()
        self._clock = clock or SystemClock()
        self._records_max, self._bytes_max = records_max, bytes_max

    def pending(self) -> int:
        """Return how many records wait."""
        return len(self._waiting())

    def append(self, call: Call, identity: object) -> bool:
        """Keep a record durably; returns False if one of the same identity waits already.

        Raises StoreUnavailable when it is full, or when another process holds its lock for longer
        than `APPEND_SECONDS_MAX`; nothing is kept then.
        """
        # Words of a command line may hold bytes that are no characters.
        data = json.dumps(call, ensure_ascii=False).encode(errors="replace")
        plain = json.dumps(identity, ensure_ascii=False, sort_keys=True).encode(errors="replace")
        key = hashlib.sha256(plain).hexdigest()[:_KEY_CHARACTERS]
        with self._locked(".append", wait_seconds=APPEND_SECONDS_MAX) as is_ours:
            if not is_ours:
                message = f"another process holds {self.directory / '.append'}"
                fix = "look for a stopped process: `fuser -v` names it; end it, then try again"
                raise StoreUnavailable(message, fix=fix)
            waiting = self._waiting()
            if any(each.key == key for each in waiting):
                return False
            size = len(data) + sum(each.size for each in waiting)
            if len(waiting) >= self._records_max or size > self._bytes_max:
                message = f"the store is away, and its buffer is full with {len(waiting)} records"
                fix = f"bring the store back; the records wait in {self.directory}"
                raise StoreUnavailable(message, fix=fix)
            place = max((each.place for each in waiting), default=0) + 1
            name = f"{place:012d}-{len(data)}-{key}.json"
            atomic.write(self.directory / name, data, files=self._files)
            return True

    def replay(self, do: Callable[[Call], object], *, seconds_max: float | None = None) -> int:
        """Do every record in order and forget it; returns how many, 0 if another process does it.

        Stops with the error when the store is away again. What the store refuses for good is moved
        to `refused` and logged, so that it does not hold up the others. After `seconds_max` it
        begins no other record: other processes may add some all the time.
        """
        done, is_ours, began = 0, True, self._clock.monotonic()
        # Again after the lock is given back: a record may have come between the last look and that,
        # from a process that found the lock held.
        while is_ours:
            with self._locked(".replay") as is_ours:
                while is_ours and (waiting := self._waiting()):
                    for each in waiting:
                        spent = self._clock.monotonic() - began
                        if seconds_max is not None and spent >= seconds_max:
                            return done
                        self._replay_one(each.name, do)
                        done += 1
        return done

    def _replay_one(self, name: str, do: Callable[[Call], object]) -> None:
        path = self.directory / name
        try:
            do(json.loads(self._read(path)))
        except Exception as exc:
            is_away = isinstance(exc, (StoreError, StorageError)) and not isinstance(exc, SqlFailed)
            if is_away:  # Or this disk is; the record is not at fault.
                raise
            self._files.make_directories(self.directory / REFUSED)
            self._files.replace(path, self.directory / REFUSED / name)
            code = exc.code if isinstance(exc, OncewardError) else type(exc).__name__
            log_event(logging.WARNING, {"event": "buffer.refused", "key": name, "error": code})
        else:
            # After a crash here it is done again, which changes nothing.
            self._files.remove(path)
        self._files.sync_directory(self.directory)

    def _read(self, path: Path) -> bytes:
        try:
            opened = self._files.open_read(path)
        except FileMissing as exc:  # Somebody emptied the directory by hand.
            message = f"{path.name}: is gone"
            raise ValueError(message) from exc
        with closing(opened) as file:
            return file.read(0, self._bytes_max + 1)

    def _waiting(self) -> list[_Waiting]:
        found: list[_Waiting] = []
        for name in self._files.names(self.directory):
            place, _, rest = name.removesuffix(".json").partition("-")
            size, _, key = rest.partition("-")
            if name.endswith(".json") and place.isdigit() and size.isdigit() and key:
                found.append(_Waiting(name=name, place=int(place), size=int(size), key=key))
        return sorted(found, key=lambda each: each.place)

    @contextmanager
    def _locked(self, name: str, *, wait_seconds: float | None = None) -> Iterator[bool]:
        """Hold a lock of this directory; yields whether we have it, after at most so long."""
        if wait_seconds is None and not self._waiting():
            yield False  # Nothing to lock, and perhaps no directory.
            return
        deadline = self._clock.monotonic() + (wait_seconds or 0.0)
        is_ours = False

        def take(file: OpenFile) -> None:
            nonlocal is_ours
            # In short waits: who holds it may be stopped.
            while not (is_ours := file.try_lock()) and self._clock.monotonic() < deadline:
                self._clock.sleep(_LOOK_SECONDS)

        file, _ = open_locked(self.directory / name, self._files, take=take)
        try:
            yield is_ours
        finally:
            if is_ours:
                give_back(file)
            else:
                file.close()
