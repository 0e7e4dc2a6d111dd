"""Disk: what has reached the platter, and what is still on its way there.

Owns the write-list model: files and directories by number, each with a durable image, a live one,
and the pending operations between the two in the order they were issued. Decides no crash and
translates no error.
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
    """Bytes on their way into a file."""

    #: Place in the order in which the operations of the disk were issued.
    order: int
    #: What happened, for people.
    label: str
    #: The file's number.
    inode: int
    #: Where the first byte goes; fixed when the write is issued.
    offset: int
    data: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Truncate:
    """A new end on its way to a file."""

    #: Place in the order in which the operations of the disk were issued.
    order: int
    #: What happened, for people.
    label: str
    #: The file's number.
    inode: int
    size: int


@dataclass(eq=False, kw_only=True, slots=True)
class NameChange:
    """Names given and taken away in one indivisible step."""

    #: Place in the order in which the operations of the disk were issued.
    order: int
    #: What happened, for people.
    label: str
    #: Which directory gives which name to which number; None takes the name away.
    steps: tuple[tuple[int, str, int | None], ...]
    #: The directories among them that were not synced since; when empty, the step is durable.
    unsynced: set[int]


Pending = Write | Truncate | NameChange


def put(image: bytearray, offset: int, data: bytes) -> None:
    """Lay bytes over an image; what lies between its end and `offset` becomes zeros."""
    if offset > len(image):
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


def cut(image: bytearray, size: int) -> None:
    """Make an image `size` bytes long, with zeros where it was shorter."""
    put(image, size, b"")
    del image[size:]


class Inode:
    """One file's content, durable and live."""

    __slots__ = ("durable", "holder", "live", "number", "pending")

    def __init__(self, number: int, durable: bytes = b"") -> None:
        """Hold what is on disk; nothing is pending."""
        self.number = number
        self.durable = durable
        #: What running code sees; None while that is the durable image itself.
        self.live: bytearray | None = None
        self.pending: list[Write | Truncate] = []
        #: The holder of the exclusive lock.
        self.holder: object | None = None

    @property
    def content(self) -> bytes | bytearray:
        """Return what running code sees."""
        return self.durable if self.live is None else self.live

    def change(self, operation: Write | Truncate) -> None:
        """Apply an operation to what running code sees, and leave it pending."""
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

    def lose(self, chance: random.Random) -> None:
        """Forget pending operations at random, as a kernel does that failed to write them.

        Running code goes on seeing them, and a later sync succeeds without them.
        """
        self.pending = [operation for operation in self.pending if chance.random() < 0.5]


class Directory:
    """One directory's names, durable and live."""

    __slots__ = ("durable", "live", "number")

    def __init__(self, number: int, durable: dict[str, int] | None = None) -> None:
        """Hold the names that are on disk; nothing is pending."""
        self.number = number
        self.durable = durable or {}
        self.live = dict(self.durable)


def apply(operation: Write | Truncate, image: bytearray) -> None:
    """Do to an image what the operation does to the file."""
    if isinstance(operation, Write):
        put(image, operation.offset, operation.data)
    else:
        cut(image, operation.size)


class Disk:
    """Every file and directory by number, and the name changes that are not durable yet."""

    def __init__(
        self, nodes: Iterable[Inode | Directory] = (), *, first_free: int = ROOT + 1
    ) -> None:
        """Start with these, or with an empty root directory."""
        self.nodes: dict[int, Inode | Directory] = {node.number: node for node in nodes}
        self.nodes.setdefault(ROOT, Directory(ROOT))
        self.name_changes: list[NameChange] = []
        #: Guards the whole disk, and wakes those who wait for a file's lock.
        self.mutex = threading.Condition()
        self.first_free = first_free
        self._orders = itertools.count()

    def next_order(self) -> int:
        """Return the place in the order for an operation issued now."""
        return next(self._orders)

    def new_inode(self) -> Inode:
        """Add an empty file that has no name yet; numbers are never used twice."""
        inode = self.nodes[self.first_free] = Inode(self.first_free)
        self.first_free += 1
        return inode

    def new_directory(self) -> Directory:
        """Add an empty directory that has no name yet."""
        directory = self.nodes[self.first_free] = Directory(self.first_free)
        self.first_free += 1
        return directory

    def find(self, path: Path) -> Inode | Directory:
        """Return what the path leads to now; raise OSError as the system would."""
        node = self.nodes[ROOT]
        for name in _names(path):
            if not isinstance(node, Directory):
                raise os_error(errno.ENOTDIR)
            if name not in node.live:
                raise os_error(errno.ENOENT)
            node = self.nodes[node.live[name]]
        return node

    def place(self, path: Path) -> tuple[Directory, str, Inode | Directory | None]:
        """Return the directory of the path's last name, that name, and what it means now."""
        assert _names(path), "the root has no name"
        directory = self.find(path.parent)
        if not isinstance(directory, Directory):
            raise os_error(errno.ENOTDIR)
        number = directory.live.get(path.name)
        return directory, path.name, None if number is None else self.nodes[number]

    def rename(self, label: str, *steps: tuple[int, str, int | None]) -> None:
        """Change names in one step: at once for running code, durable after a sync."""
        for number, name, node in steps:
            give(self.directory(number).live, name, node)
        touched = {number for number, _, _ in steps}
        change = NameChange(order=self.next_order(), label=label, steps=steps, unsynced=touched)
        self.name_changes.append(change)

    def sync_names(self, number: int) -> None:
        """Make the names of one directory durable.

        A step across two directories is durable once both were synced; until then what came later
        in either of them is kept behind it, so that the order of the steps stays true.
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
                give(self.directory(directory).durable, name, node)
        self.name_changes = waiting

    def directory(self, number: int) -> Directory:
        """Return a directory by its number."""
        directory = self.nodes[number]
        assert isinstance(directory, Directory), number
        return directory


def give(names: dict[str, int], name: str, node: int | None) -> None:
    """Give a name to a number, or take it away."""
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _names(path: Path) -> tuple[str, ...]:
    """Return the names below the root; the root is also where relative paths begin."""
    assert ".." not in path.parts, path
    return path.parts[1:] if path.is_absolute() else path.parts


def os_error(code: int) -> OSError:
    """Return what the system would raise."""
    return OSError(code, os.strerror(code))
