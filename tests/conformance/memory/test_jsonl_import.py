"""JSON Lines import: every valid line is imported, whatever else is in the file."""

import json
import os
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import DiskFull, FileMissing, StoreBusy, WrongPath
from onceward.memory import Memory
from onceward.memory import jsonl_import as importing_module
from onceward.memory.graph import graph_transaction
from onceward.memory.jsonl_import import ImportProblem, ImportProgress, import_file
from onceward.system import ManualClock, crash_points
from onceward.system.redaction import Redactor
from tests.support.lost_commit_answers import unreliable


def entity(name: str, *observations: object, kind: str = "person") -> dict[str, Any]:
    return {"type": "entity", "name": name, "entityType": kind, "observations": [*observations]}


def relation(start: str, end: str, kind: str = "knows") -> dict[str, Any]:
    return {"type": "relation", "from": start, "to": end, "relationType": kind}


class File:
    """A memory file, and the memory it is imported into."""

    def __init__(self, path: Path, memory: Memory) -> None:
        self.path, self.memory = path, memory
        self.problems: list[ImportProblem] = []
        self.seen: list[tuple[int, int]] = []

    def holds(self, *lines: object) -> None:
        written = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
        self.path.write_bytes(b"\n".join(written))

    def imported(self) -> ImportProgress:
        self.problems.clear()
        return import_file(
            self.memory,
            self.path,
            on_problem=self.problems.append,
            on_progress=lambda done: self.seen.append((done.bytes_done, done.bytes_total)),
        )

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.memory.graph.read().entities]

    @property
    def links(self) -> list[tuple[str, str]]:
        return [(each.from_name, each.to_name) for each in self.memory.graph.read().relations]


@pytest.fixture
def file(ow: Onceward, tmp_path: Path) -> File:
    return File(tmp_path / "memory.jsonl", Memory(ow, redactor=Redactor()))


def test_h34_a_broken_line_is_reported_and_skipped_and_the_rest_is_usable(file: File) -> None:
    """Every broken line is named with its number and the reason; all others are there."""
    file.holds(
        entity("Ann", "likes tea"),
        b'{"type":"entity","name":"Bo',
        entity("Bob"),
        b"\xff\xfe not text",
        [1, 2],
        {"type": "thing", "name": "x"},
        {"name": "nothing else"},
        entity("", "of nothing"),
        {"type": "entity", "entityType": "person"},
        {"type": "entity", "name": 7, "entityType": "person"},
        entity("x" * 3_000),
        b"",
        b"   ",
        relation("Ann", "Bob"),
        {"type": "relation", "from": "Ann", "relationType": "knows"},
        relation("Ann", "Unknown"),
    )
    done = file.imported()
    assert file.names == ["Ann", "Bob"]
    assert file.links == [("Ann", "Bob")]
    assert {each.line for each in file.problems} == {2, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16}
    reasons = {each.line: each.reason for each in file.problems}
    assert reasons[2].startswith("is not JSON: ")
    assert reasons[5] == "is JSON, but not an object"
    assert reasons[6] == "has the type 'thing', which is neither entity nor relation"
    assert reasons[8] == "name is empty"
    assert reasons[9] == "name is missing"
    assert reasons[10] == "name is not a string"
    assert reasons[11] == "name is longer than 2000 bytes"
    assert reasons[15] == "to is missing"
    assert "'Unknown'" in reasons[16]
    assert (done.entities_new, done.relations_new, done.problems) == (2, 1, 11)
    found = file.memory.search_nodes("tea")
    assert [each["name"] for each in found["entities"]] == ["Ann"]


def test_relations_may_come_before_their_entities(file: File) -> None:
    """The order of lines does not matter."""
    file.holds(relation("Ann", "Bob"), entity("Bob"), relation("Bob", "Ann"), entity("Ann"))
    file.imported()
    assert sorted(file.links) == [("Ann", "Bob"), ("Bob", "Ann")]
    assert file.problems == []


def test_a_part_that_cannot_be_kept_costs_only_itself(file: File) -> None:
    """The valid observations of an entity are kept; each invalid one is reported."""
    file.holds(entity("Ann", "a", 3, None, "b\0c", "x" * 300_000, "d"), entity("Bob"))
    file.imported()
    ann, bob = file.memory.graph.read().entities
    assert [each.content for each in ann.observations] == ["a", "d"]
    assert bob.name == "Bob"
    assert [each.line for each in file.problems] == [1] * 4


def test_what_only_the_graph_refuses_costs_only_itself(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal inside of a batch is reported with its line, and the batch goes on without it."""
    monkeypatch.setattr("onceward.memory.jsonl_format._problem", lambda *_: None)
    file.holds(
        *(entity(name) for name in "ab"),
        entity("n\0"),
        entity("c", "one", "t\0", "three"),
        relation("a", "b\0"),
        relation("a", "b"),
    )
    file.imported()
    assert file.names == ["a", "b", "c"]
    assert [len(each.observations) for each in file.memory.graph.read().entities] == [0, 0, 2]
    assert file.links == [("a", "b")]
    assert [each.line for each in file.problems] == [3, 4, 5]
    assert all("NUL" in each.reason for each in file.problems)


def test_an_import_may_be_repeated(file: File) -> None:
    """The second time everything is known, and nothing changes."""
    file.holds(entity("Ann", "a", "b"), entity("Bob"), relation("Ann", "Bob"))
    first = file.imported()
    before = file.memory.graph.read()
    second = file.imported()
    assert file.memory.graph.read() == before
    assert (first.entities_new, first.observations_new, first.relations_new) == (2, 2, 1)
    assert (second.entities_new, second.observations_new, second.relations_new) == (0, 0, 0)
    assert (second.entities_known, second.observations_known, second.relations_known) == (2, 2, 1)


def test_batches_and_large_entities_come_in_whole(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the file falls into batches, nothing is lost between them."""
    monkeypatch.setattr(importing_module, "BATCH_LINES_MAX", 7)
    monkeypatch.setattr(importing_module, "BATCH_ITEMS_MAX", 10)
    many = [f"fact {number}" for number in range(35)]
    people = [entity(f"p{number}", "x", "y") for number in range(20)]
    links = [relation(f"p{number}", f"p{number + 1}") for number in range(19)]
    file.holds(*links, entity("Ann", *many), *people)
    done = file.imported()
    assert (done.entities_new, done.observations_new, done.relations_new) == (21, 75, 19)
    ann = file.memory.graph.open(["Ann"]).entities[0]
    assert [each.content for each in ann.observations] == many
    assert len(file.links) == 19
    assert file.seen[-1][0] == file.seen[-1][1]
    assert file.seen == sorted(file.seen)


@pytest.mark.parametrize("nth", range(1, 5))
def test_a_crash_in_the_middle_is_made_good_by_another_import(
    file: File, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever an import dies, the next one completes it."""
    monkeypatch.setattr(importing_module, "BATCH_LINES_MAX", 2)
    people = [entity(f"p{number}", "x") for number in range(4)]
    file.holds(*people, *(relation("p0", f"p{number}") for number in range(1, 4)))
    crash_points.arm(f"memory.write.before_commit:{nth}:raise")
    try:
        with pytest.raises(crash_points.Crashed):
            file.imported()
    finally:
        crash_points.arm(None)
    file.imported()
    assert file.names == ["p0", "p1", "p2", "p3"]
    assert file.links == [("p0", "p1"), ("p0", "p2"), ("p0", "p3")]
    assert file.memory.graph.problems() == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_lost_answer_is_asked_for_again(
    ow_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """Whether the lost commit happened or not, everything is there at the end, once."""
    with unreliable(ow_url, monkeypatch) as (url, lose), open_handle(url) as ow:
        file = File(tmp_path / "m.jsonl", Memory(ow, clock=ManualClock(), redactor=Redactor()))
        file.holds(entity("Ann"), entity("Bob"), relation("Ann", "Bob"))
        lose(kept)
        file.imported()
        assert file.names == ["Ann", "Bob"]
        assert file.links == [("Ann", "Bob")]


def test_secrets_stay_outside(ow: Onceward, tmp_path: Path) -> None:
    """What looks like a secret is redacted in names, observations and relations."""
    file = File(tmp_path / "m.jsonl", Memory(ow, redactor=Redactor(["hunter2hunter2"])))
    name = "login hunter2hunter2"
    file.holds(
        entity(name, "password is hunter2hunter2"), relation(name, name), relation(name, "unknown")
    )
    file.imported()
    assert "hunter2" not in repr(file.memory.graph.read())
    assert file.links == [("login [redacted]", "login [redacted]")]
    assert [each.line for each in file.problems] == [3]


def test_windows_files_are_read(file: File) -> None:
    """A mark at the beginning, and carriage returns, do no harm."""
    lines = b"\r\n".join(json.dumps(each).encode() for each in (entity("Ann"), entity("Bob")))
    file.path.write_bytes(b"\xef\xbb\xbf" + lines + b"\r\n")
    file.imported()
    assert file.names == ["Ann", "Bob"]
    assert file.problems == []


def test_a_line_without_an_end_is_skipped_in_little_memory(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line of any length costs no more than the longest that is allowed."""
    monkeypatch.setattr("onceward.memory.jsonl_format.LINE_BYTES_MAX", 100_000)
    with file.path.open("wb") as out:
        out.write(json.dumps(entity("Ann")).encode() + b"\n")
        for _ in range(30):
            out.write(b"x" * 1_000_000)
        out.write(b"\n" + json.dumps(entity("Bob")).encode())
    tracemalloc.start()
    file.imported()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert file.names == ["Ann", "Bob"]
    assert [each.line for each in file.problems] == [2]
    assert peak < 10_000_000


def test_a_pipe_is_read_as_a_file_is(file: File, tmp_path: Path) -> None:
    """Though it can be read only once, relations may come before their entities."""
    lines = [relation("Ann", "Bob"), *(entity(f"n{each}", "x" * 1_000) for each in range(2_000))]
    lines += [entity("Ann"), entity("Bob")]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = b"\n".join(json.dumps(line).encode() for line in lines)
    writer = threading.Thread(target=pipe.write_bytes, args=(text,))
    writer.start()
    file.path = pipe
    done = file.imported()
    writer.join()
    assert (done.lines, done.entities_new, done.relations_new) == (2_003, 2_002, 1)
    assert file.links == [("Ann", "Bob")]
    assert file.seen[-1] == (2 * len(text), 2 * len(text))


def test_an_ignored_type_is_reported_once(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entity that is there keeps its type; an import of another type reports that."""
    monkeypatch.setattr(importing_module, "BATCH_ITEMS_MAX", 3)
    file.memory.create_entities([{"name": "Ann", "entityType": "cat"}])
    file.holds(
        entity("Ann", "a", "b", "c", "d", "e"),
        entity("Bob"),
        entity("Bob", kind="dog"),
        entity("hunter", kind="password=x1"),
    )
    file.imported()
    assert [(each.line, each.reason) for each in file.problems] == [
        (1, "its type was left out: 'Ann' stays 'cat'"),
        (3, "its type was left out: 'Bob' stays 'person'"),
    ]
    ann, _, hunter = file.memory.graph.read().entities
    assert (ann.entity_type, len(ann.observations)) == ("cat", 5)
    assert hunter.entity_type == "password=[redacted]"


def test_files_that_are_none_are_refused(file: File, tmp_path: Path) -> None:
    """A missing file and a directory get different errors."""
    with pytest.raises(FileMissing):
        file.imported()
    with pytest.raises(WrongPath):
        import_file(file.memory, tmp_path)
    file.path.write_bytes(b"")
    assert file.imported().lines == 0


@pytest.mark.parametrize("ow_url", ["sqlite"], indirect=True)
def test_after_an_import_there_is_one_index_of_words(
    ow: Onceward, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search need not look through a layer for every batch; in as many steps as it takes."""
    monkeypatch.setattr(graph_transaction, "_PAGES", 1)
    monkeypatch.setattr(importing_module, "MERGE_FROM", 1)
    file = File(tmp_path / "memory.jsonl", Memory(ow))
    for number in range(6):
        file.memory.create_entities([entity(f"e{number}", "a fact") | {"entityType": "t"}])
    assert layers(ow) > 1
    file.holds(entity("last", "a fact"))
    assert file.imported().problems == 0
    assert layers(ow) == 1
    assert len(file.memory.search_nodes("fact")["entities"]) == 7


@pytest.mark.parametrize("error", [StoreBusy("others write"), DiskFull("no room")])
@pytest.mark.parametrize("ow_url", ["sqlite"], indirect=True)
def test_a_merge_that_cannot_be_does_not_spoil_an_import(
    ow: Onceward, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """What is imported is there, and searches are right, merged or not."""

    def refused(*_: object) -> bool:
        raise error

    monkeypatch.setattr(graph_transaction, "_merged", refused)
    monkeypatch.setattr(importing_module, "MERGE_FROM", 1)
    file = File(tmp_path / "memory.jsonl", Memory(ow))
    file.holds(entity("last", "a fact"))
    file.imported()
    assert len(file.memory.search_nodes("fact")["entities"]) == 1


def layers(ow: Onceward) -> int:
    with ow.transaction() as tx:
        ((count,),) = tx.execute("select count(distinct segid) from memory_words_idx")
    return int(count)
