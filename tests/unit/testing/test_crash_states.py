"""The list of crash states is complete where it can be, and the same every time."""

from __future__ import annotations

import pytest

from onceward.testing import CrashFiles
from tests.support.crash_file_contents import LOG, content, contents, durable_log


def busy_files(operations: int) -> CrashFiles:
    files = CrashFiles()
    file = durable_log(files)
    for number in range(operations):
        file.write(bytes([number]) * 700)
    return files


@pytest.mark.parametrize("operations", [3, 8, 9, 20])
def test_states_can_be_made_again_from_seed_and_index(operations: int) -> None:
    """The same seed lists the same states, and each can be made alone by its index."""
    first, second = busy_files(operations), busy_files(operations)
    listed = list(first.crashes(seed=7, limit=400))
    again = list(second.crashes(seed=7, limit=400))
    assert [(s.description, content(s)) for s in listed] == [
        (s.description, content(s)) for s in again
    ]
    for state in listed[::13]:
        index = int(state.description.split()[2])
        alone = first.crash(index=index, seed=7)
        assert (alone.description, content(alone)) == (state.description, content(state))


def test_seeds_differ() -> None:
    """Another seed damages the writes in another way."""
    files = busy_files(9)
    assert contents(files, seed=1) != contents(files, seed=2)


def test_eight_operations_are_exhaustive_and_nine_are_sampled() -> None:
    """All 256 subsets of eight appear; of nine there are as many samples as asked for."""
    descriptions = {state.description.partition(": ")[2] for state in busy_files(8).crashes()}
    assert sum(not {"torn", "garbage", "zeros"} & set(_words(d)) for d in descriptions) == 256
    sampled = list(busy_files(9).crashes(limit=300))
    assert len(sampled) == 300
    assert {len(content(state) or b"") for state in sampled[:2]} == {0, 9 * 700}


def _words(description: str) -> list[str]:
    return description.replace(",", " ").split()


def test_listing_is_not_disturbed_by_later_changes() -> None:
    """The states belong to the moment of the call, whatever happens while they are listed."""
    files = CrashFiles()
    file = durable_log(files, b"safe")
    file.write(b"late")
    states = files.crashes()
    file.sync()
    file.write(b"later")
    assert b"safe" in [content(state) for state in states]


def test_description_names_each_operation_and_its_fate() -> None:
    """A failure message says what was kept and what was dropped."""
    files = CrashFiles()
    files.open_append(LOG).write(b"data")
    assert files.crash(index=1, seed=3).description == (
        "crash state 1 of seed 3: create /log: kept; write 4 bytes at 0 to /log: dropped"
    )
