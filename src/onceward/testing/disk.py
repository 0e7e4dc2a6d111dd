"""Disk: a simulated disk that keeps durable state and pending, unsynced operations apart.

Models files and directories by number. Each has a durable image, a live image, and the pending
operations between the two, in the order in which they were issued. `crash_states` simulates
crashes.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable
    from pathlib import Path

ROOT: Final = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Write:
    """A write to a file that is not synced yet."""

    #: Sequence number among the operations of the disk.
    order: int
    #: Description for messages.
    label: str
    #: The file's number.
    inode: int
    #: Where the first byte goes; fixed when the write is issued.
    offset: int
    data: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Truncate:
    """A change of a file's size that is not synced yet."""

    #: Sequence number among the operations of the disk.
    order: int
    #: Description for messages.
    label: str
    #: The file's number.
    inode: int
    size: int


@dataclass(eq=False, kw_only=True, slots=True)
class NameChange:
    """Names added and removed in one atomic step."""

    #: Sequence number among the operations of the disk.
    order: int
    #: Description for messages.
    label: str
    #: Directory, name and node number of each entry; None removes the name.
    steps: tuple[tuple[int, str, int | None], ...]
    #: The directories that were not synced since; when empty, the step is durable.
    unsynced: set[int]


Pending = Write | Truncate | NameChange


def put(image: bytearray, offset: int, data: bytes) -> None:
    """Write bytes into an image; a gap between its end and `offset` is filled with zeros."""
    if offset > len(image):
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


def cut(image: bytearray, size: int) -> None:
    """Truncate an image to `size` bytes, or extend it with zeros."""
    put(image, size, b"")
    del image[size:]


class Inode:
    """One file's content, durable and live."""

    __slots__ = ("durable", "holder", "live", "number", "pending")

    def __init__(self, number: int, durable: bytes = b"") -> None:
        """Start from the durable content, with nothing pending."""
        self.number = number
        self.durable = durable
        #: The live image; None while it equals the durable one.
        self.live: bytearray | None = None
        self.pending: list[Write | Truncate] = []
        #: The holder of the exclusive lock.
        self.holder: object | None = None

    @property
    def content(self) -> bytes | bytearray:
        """Return the live content, as running code sees it."""
        return self.durable if self.live is None else self.live

    def change(self, operation: Write | Truncate) -> None:
        """Apply an operation to the live content, and leave it pending."""
        if self.live is None:
            self.live = bytearray(self.durable)
        apply(operation, self.live)
        self.pending.append(operation)

    def sync(self) -> None:
        """Make every pending operation durable."""
        image = bytearray(self.durable)
        for operation in self.pending:
            apply(operation, image)
        self.durable = bytes(image)
        self.pending.clear()

    def drop_random_pending(self, chance: random.Random) -> None:
        """Drop pending operations at random, as a kernel does after a failed write-back.

        Running code still sees them, and a later sync succeeds without them.
        """
        self.pending = [operation for operation in self.pending if chance.random() < 0.5]


class Directory:
    """One directory's names, durable and live."""

    __slots__ = ("durable", "live", "number")

    def __init__(self, number: int, durable: dict[str, int] | None = None) -> None:
        """Start from the durable names, with nothing pending."""
        self.number = number
        self.durable = durable or {}
        self.live = dict(self.durable)


def apply(operation: Write | Truncate, image: bytearray) -> None:
    """Apply a write or truncation to an image."""
    if isinstance(operation, Write):
        put(image, operation.offset, operation.data)
    else:
        cut(image, operation.size)


class Disk:
    """Every file and directory by number, and the name changes that are not durable yet."""

    def __init__(
        self, nodes: Iterable[Inode | Directory] = (), *, first_free: int = ROOT + 1
    ) -> None:
        """Start with these nodes, or with an empty root directory."""
        self.nodes: dict[int, Inode | Directory] = {node.number: node for node in nodes}
        self.nodes.setdefault(ROOT, Directory(ROOT))
        self.name_changes: list[NameChange] = []
        #: Guards the whole disk, and is notified when a file's lock is released.
        self.mutex = threading.Condition()
        self.first_free = first_free
        self._orders = itertools.count()

    def next_order(self) -> int:
        """Return the sequence number for an operation issued now."""
        return next(self._orders)

    def new_inode(self) -> Inode:
        """Add an empty file without a name; numbers are never reused."""
        inode = self.nodes[self.first_free] = Inode(self.first_free)
        self.first_free += 1
        return inode

    def new_directory(self) -> Directory:
        """Add an empty directory without a name."""
        directory = self.nodes[self.first_free] = Directory(self.first_free)
        self.first_free += 1
        return directory

    def find(self, path: Path) -> Inode | Directory:
        """Return the live node at a path; raise OSError as the operating system would."""
        node = self.nodes[ROOT]
        for name in _names(path):
            if not isinstance(node, Directory):
                raise os_error(errno.ENOTDIR)
            if name not in node.live:
                raise os_error(errno.ENOENT)
            node = self.nodes[node.live[name]]
        return node

    def place(self, path: Path) -> tuple[Directory, str, Inode | Directory | None]:
        """Return the directory of the path's last name, that name, and its live node."""
        assert _names(path), "the root has no name"
        directory = self.find(path.parent)
        if not isinstance(directory, Directory):
            raise os_error(errno.ENOTDIR)
        number = directory.live.get(path.name)
        return directory, path.name, None if number is None else self.nodes[number]

    def rename(self, label: str, *steps: tuple[int, str, int | None]) -> None:
        """Change names in one step: visible immediately, durable after a sync."""
        for number, name, node in steps:
            set_name(self.directory(number).live, name, node)
        touched = {number for number, _, _ in steps}
        change = NameChange(order=self.next_order(), label=label, steps=steps, unsynced=touched)
        self.name_changes.append(change)

    def sync_names(self, number: int) -> None:
        """Make the names of one directory durable.

        A step across two directories is durable once both are synced. Until then, later steps in
        either directory stay pending too, so that the order of steps is kept.
        """
        waiting: list[NameChange] = []
        blocked: set[int] = set()
        for change in self.name_changes:
            change.unsynced.discard(number)
            touched = {step[0] for step in change.steps}
            if change.unsynced or touched & blocked:
                blocked |= touched
                waiting.append(change)
                continue
            for directory, name, node in change.steps:
                set_name(self.directory(directory).durable, name, node)
        self.name_changes = waiting

    def directory(self, number: int) -> Directory:
        """Return a directory by its number."""
        directory = self.nodes[number]
        assert isinstance(directory, Directory), number
        return directory


def set_name(names: dict[str, int], name: str, node: int | None) -> None:
    """Assign a name to a node number, or remove the name."""
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _names(path: Path) -> tuple[str, ...]:
    """Return the path's parts below the root; relative paths start at the root."""
    assert ".." not in path.parts, path
    return path.parts[1:] if path.is_absolute() else path.parts


def os_error(code: int) -> OSError:
    """Return the OSError that the operating system would raise."""
    return OSError(code, os.strerror(code))
