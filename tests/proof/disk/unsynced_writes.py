"""Unsynced writes: which bytes of SQLite's files are on disk, and which a power cut may lose.

A power cut leaves of each sector what was synced last, or some of what was written since, or
noise; of a file's length, any since then; of a name that was not synced, perhaps nothing. Then the
files are what the next process finds.
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Final

from onceward.testing.disk import cut, put

SECTOR_BYTES: Final = 512
#: How the names of SQLite's logs end.
LOGS: Final = ("-journal", "-wal")
#: Of the writes that did not survive, so many left noise.
NOISE: Final = 0.05


class UnsyncedFile:
    """One file."""

    def __init__(self, content: bytes, *, is_named: bool) -> None:
        """Begin with what is on disk."""
        self._durable = content
        self._live = bytearray(content)
        #: What was written into each sector since the last sync, and the lengths there were.
        self._pieces: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        self._sizes = [len(content)]
        #: Whether its name is on disk.
        self.is_named = is_named

    def write(self, offset: int, data: bytes) -> None:
        """Note a write."""
        put(self._live, offset, data)
        self._sizes.append(len(self._live))
        end = offset + len(data)
        for sector in range(offset // SECTOR_BYTES, (end - 1) // SECTOR_BYTES + 1):
            first = max(offset, sector * SECTOR_BYTES)
            last = min(end, (sector + 1) * SECTOR_BYTES)
            self._pieces[sector].append((first, data[first - offset : last - offset]))

    def truncate(self, size: int) -> None:
        """Note a new length."""
        cut(self._live, size)
        self._sizes.append(size)

    def sync(self) -> None:
        """Have all of it on disk, though perhaps not its name."""
        self._durable = bytes(self._live)
        self._pieces.clear()
        self._sizes = [len(self._live)]

    def survivor(self, chance: random.Random) -> bytes:
        """Return what a power cut leaves."""
        image = bytearray(self._durable)
        kept = chance.choice((0.1, 0.5, 0.9))
        for pieces in self._pieces.values():
            most = len(pieces)
            count = most if chance.random() < kept else chance.randrange(most)
            for start, data in pieces[:count]:
                put(image, start, data)
            if count < most and chance.random() < NOISE:
                # Only where something was being written: SQLite relies on that, as disks keep it.
                start, data = pieces[count]
                put(image, start, chance.randbytes(len(data)))
        cut(image, self._sizes[-1] if chance.random() < kept else chance.choice(self._sizes))
        return bytes(image)


class UnsyncedFiles:
    """All files of one database."""

    def __init__(self) -> None:
        """Know none yet."""
        self._files: dict[str, UnsyncedFile] = {}
        #: Files that were removed, which a power cut may bring back.
        self._removed: dict[str, UnsyncedFile] = {}

    def open(self, path: str) -> None:
        """Take what is there as being on disk; called before any process has it open."""
        if path not in self._files:
            is_there = Path(path).exists()
            content = Path(path).read_bytes() if is_there else b""
            self._files[path] = UnsyncedFile(content, is_named=is_there)

    def of(self, path: str) -> UnsyncedFile:
        """Return a file that was opened."""
        return self._files[path]

    def sync(self, path: str) -> None:
        """Have a file on disk; SQLite syncs the directory with the first sync of a new log."""
        self._files[path].sync()
        if not self._files[path].is_named and path.endswith(LOGS):
            self._removed.clear()
            for each in self._files.values():
                each.is_named = True

    def delete(self, path: str, *, is_synced: bool) -> None:
        """Note a removal."""
        gone = self._files.pop(path, None)
        if gone is not None and gone.is_named and not is_synced:
            self._removed[path] = gone

    def cut(self, seed: int) -> None:
        """Leave the files as a power cut would."""
        chance = random.Random(seed)
        for path in sorted({*self._removed, *self._files}):
            new, old = self._files.get(path), self._removed.get(path)
            is_left = new is not None and (new.is_named or chance.random() < 0.5)
            left = new if is_left else old if chance.random() < 0.5 else None
            Path(path).unlink(missing_ok=True)
            if left is not None:
                Path(path).write_bytes(left.survivor(chance))
            # That one was in memory only.
            Path(f"{path}-shm").unlink(missing_ok=True)
