"""Crash states: list every state of a disk that a power failure could leave.

Decides which pending operations survive, in whole, in part or as garbage, and in which order the
states are listed. A state is a pure function of the disk, a seed and an index, so a failure can be
repeated from those two numbers.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from onceward.testing.disk import (
    ROOT,
    Directory,
    Disk,
    Inode,
    NameChange,
    Pending,
    Truncate,
    Write,
    apply,
    put,
    set_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A disk writes a sector atomically.
SECTOR_BYTES: Final = 512
#: Up to this many pending operations, every subset of them is tried.
EXHAUSTIVE_OPERATIONS_MAX: Final = 8
#: How often each subset is tried again with its surviving writes damaged.
DAMAGED_ROUNDS: Final = 4
#: Minimum number of damaged states, for disks with few pending operations.
DAMAGED_STATES_MIN: Final = 64
STATES_MAX: Final = 2**EXHAUSTIVE_OPERATIONS_MAX * (1 + DAMAGED_ROUNDS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fate:
    """Whether one pending operation survived a crash, and how it was damaged."""

    #: The description in messages.
    description: str
    #: The parts of the write that reached the disk; None for the whole write.
    patches: tuple[tuple[int, bytes], ...] | None = None


KEPT: Final = Fate(description="kept")
DROPPED: Final = Fate(description="dropped")


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Origin of a crash state; `seed` and `index` reproduce it."""

    seed: int
    index: int
    operations: tuple[Pending, ...]
    fates: tuple[Fate, ...]

    def __str__(self) -> str:
        pairs = zip(self.operations, self.fates, strict=True)
        operations = "; ".join(
            f"{operation.label}: {fate.description}" for operation, fate in pairs
        )
        return (
            f"crash state {self.index} of seed {self.seed}: {operations or 'nothing was pending'}"
        )


class DiskSnapshot:
    """A copy of a disk with its pending operations; later changes do not affect it."""

    def __init__(self, disk: Disk) -> None:
        """Copy the durable state and the pending operations."""
        self._first_free = disk.first_free
        self._files: list[tuple[int, bytes]] = []
        self._directories: list[tuple[int, dict[str, int]]] = []
        #: Durable steps that are ordered after one that is not; they survive, in that order.
        self._settled = [change for change in disk.name_changes if not change.unsynced]
        pending: list[Pending] = [change for change in disk.name_changes if change.unsynced]
        for node in _reachable(disk):
            if isinstance(node, Inode):
                self._files.append((node.number, node.durable))
                pending.extend(node.pending)
            else:
                self._directories.append((node.number, dict(node.durable)))
        #: In the order in which they were issued.
        self.pending = tuple(sorted(pending, key=lambda operation: operation.order))
        self._exhaustive = len(self.pending) <= EXHAUSTIVE_OPERATIONS_MAX

    def states(self, *, limit: int, seed: int) -> Iterator[tuple[Disk, Origin]]:
        """List the disks: all subsets first, then damaged ones; at random when there are many."""
        subsets = 2 ** len(self.pending)
        damaged = max(subsets * DAMAGED_ROUNDS, DAMAGED_STATES_MIN)
        for index in range(min(limit, subsets + damaged) if self._exhaustive else limit):
            if not self._exhaustive or index < subsets or self._writes_in(index % subsets):
                yield self.state(index=index, seed=seed)

    def state(self, *, index: int, seed: int) -> tuple[Disk, Origin]:
        """Return the disk for this index and seed; index 0 has lost every pending operation."""
        fates = self._fates(index, seed)
        origin = Origin(seed=seed, index=index, operations=self.pending, fates=fates)
        return self._disk(fates), origin

    def _writes_in(self, subset: int) -> bool:
        return any(
            subset >> bit & 1 and isinstance(operation, Write)
            for bit, operation in enumerate(self.pending)
        )

    def _fates(self, index: int, seed: int) -> tuple[Fate, ...]:
        count = len(self.pending)
        if not self._exhaustive:
            return self._sampled(index, seed)
        subset = [KEPT if index >> bit & 1 else DROPPED for bit in range(count)]
        if index < 2**count:
            return tuple(subset)
        chance = random.Random(f"{seed}/{index}")
        writes = [
            bit
            for bit, operation in enumerate(self.pending)
            if isinstance(operation, Write) and subset[bit] is KEPT
        ]
        for bit in chance.sample(writes, chance.randint(1, len(writes)) if writes else 0):
            subset[bit] = _damaged(self.pending[bit], chance)
        return tuple(subset)

    def _sampled(self, index: int, seed: int) -> tuple[Fate, ...]:
        """Draw a fate for each operation; the share of lost operations varies between states."""
        if index < 2:
            return (KEPT if index else DROPPED,) * len(self.pending)
        chance = random.Random(f"{seed}/{index}")
        kept = chance.choice((0.1, 0.5, 0.9))
        return tuple(
            KEPT
            if chance.random() < kept
            else chance.choice((DROPPED, _damaged(operation, chance)))
            for operation in self.pending
        )

    def _disk(self, fates: tuple[Fate, ...]) -> Disk:
        survivors: list[tuple[Pending, Fate]] = [
            pair for pair in zip(self.pending, fates, strict=True) if pair[1] is not DROPPED
        ]
        if self._settled:
            survivors += [(change, KEPT) for change in self._settled]
            survivors.sort(key=lambda pair: pair[0].order)
        contents: dict[int, list[tuple[Write | Truncate, Fate]]] = {}
        directories = {number: dict(names) for number, names in self._directories}
        for operation, fate in survivors:
            if isinstance(operation, NameChange):
                for directory, name, node in operation.steps:
                    set_name(directories[directory], name, node)
            else:
                contents.setdefault(operation.inode, []).append((operation, fate))
        nodes: list[Inode | Directory] = [
            Inode(number, _image(durable, contents.get(number, [])))
            for number, durable in self._files
        ]
        nodes += [Directory(number, names) for number, names in directories.items()]
        return Disk(nodes, first_free=self._first_free)


def _reachable(disk: Disk) -> list[Inode | Directory]:
    """Return nodes that have a name on disk, or would have one if some pending step survived."""
    given: dict[int, list[int]] = {}
    for change in disk.name_changes:
        for holder, _, node in change.steps:
            if node is not None:
                given.setdefault(holder, []).append(node)
    found, left = {ROOT}, [ROOT]
    while left:
        number = left.pop()
        directory = disk.nodes[number]
        if isinstance(directory, Directory):
            fresh = {*directory.durable.values(), *given.get(number, ())} - found
            found |= fresh
            left += fresh
    return [disk.nodes[number] for number in sorted(found)]


def _image(durable: bytes, survivors: list[tuple[Write | Truncate, Fate]]) -> bytes:
    if not survivors:
        return durable
    image = bytearray(durable)
    for operation, fate in survivors:
        if fate.patches is None:
            apply(operation, image)
        else:
            for offset, data in fate.patches:
                put(image, offset, data)
    return bytes(image)


def _damaged(operation: Pending, chance: random.Random) -> Fate:
    """Let only a part of a write reach the disk, or garbage, or nothing but the new size."""
    if not isinstance(operation, Write):
        return KEPT
    start, data = operation.offset, operation.data
    end = start + len(data)
    cuts = list(range(start - start % SECTOR_BYTES + SECTOR_BYTES, end, SECTOR_BYTES))
    kind = chance.choice(("torn", "torn", "garbage", "zeros") if cuts else ("garbage", "zeros"))
    if kind == "zeros":
        return Fate(description="zeros, only its size survived", patches=((end, b""),))
    if kind == "garbage":
        return _garbage([start, *cuts, end], data, chance)
    middle = chance.choice(cuts)
    if chance.random() < 0.5:
        return Fate(
            description=f"torn, only before {middle}", patches=((start, data[: middle - start]),)
        )
    return Fate(
        description=f"torn, only from {middle}", patches=((middle, data[middle - start :]),)
    )


def _garbage(edges: list[int], data: bytes, chance: random.Random) -> Fate:
    """Fill at least one of the write's sectors with noise."""
    sectors = list(itertools.pairwise(edges))
    noisy = sorted(chance.sample(sectors, chance.randint(1, len(sectors))))
    noise = tuple((first, chance.randbytes(last - first)) for first, last in noisy)
    places = ", ".join(f"{first}-{last}" for first, last in noisy)
    return Fate(description=f"garbage in {places}", patches=((edges[0], data), *noise))
