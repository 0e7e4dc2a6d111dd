"""JSON Lines export: the whole graph, in a stable order, in the format of the import."""

import json
import os
from pathlib import Path

import pytest

from onceward.client import Onceward
from onceward.errors import Conflict, DiskFull, InvalidArgument
from onceward.memory import Graph, Link, Memory, NewEntity, Removal, WriteBatch
from onceward.memory import jsonl_format as exporting_module
from onceward.memory.jsonl_format import ExportProgress, export, new_file
from onceward.memory.jsonl_import import import_file
from onceward.system.redaction import Redactor


@pytest.fixture
def graph(ow: Onceward) -> Graph:
    made = Graph(ow.store, redactor=Redactor())
    people = [
        NewEntity(name=f"p{number}", entity_type="person", observations=("näme", f"fact {number}"))
        for number in range(5)
    ]
    links = [
        Link(from_name=f"p{number}", to_name="p0", relation_type="knows") for number in range(5)
    ]
    links += [Link(from_name="p0", to_name="p1", relation_type="likes")]
    made.write(WriteBatch(entities=tuple(people), relations=tuple(links)))
    return made


def exported(graph: Graph) -> tuple[bytes, ExportProgress]:
    blocks: list[bytes] = []
    done = export(graph, blocks.append)
    return b"".join(blocks), done


def test_an_export_holds_everything_entities_first(graph: Graph) -> None:
    """Every line is an entity, or then a relation, sorted by where it begins."""
    text, done = exported(graph)
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[0] == {
        "type": "entity",
        "name": "p0",
        "entityType": "person",
        "observations": ["näme", "fact 0"],
    }
    assert lines[5] == {"type": "relation", "from": "p0", "to": "p0", "relationType": "knows"}
    assert [line["from"] for line in lines[5:]] == ["p0", "p0", "p1", "p2", "p3", "p4"]
    assert [line["type"] for line in lines] == ["entity"] * 5 + ["relation"] * 6
    assert (done.entities, done.observations, done.relations, done.cut) == (5, 10, 6, [])


@pytest.mark.parametrize("page", [1, 2, 5, 1000])
def test_pages_do_not_show(graph: Graph, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same graph gives the same bytes, however it is read."""
    whole, _ = exported(graph)
    monkeypatch.setattr(exporting_module, "PAGE_ENTITIES", page)
    assert exported(graph)[0] == whole


def test_what_is_deleted_is_not_exported(graph: Graph) -> None:
    """An export is what the graph says now."""
    graph.remove(Removal(entities=("p0",)))
    text, done = exported(graph)
    assert b'"p0"' not in text
    assert (done.entities, done.relations) == (4, 0)


def test_an_export_imported_elsewhere_is_the_same_graph(
    graph: Graph, tmp_path: Path, ow: Onceward
) -> None:
    """There and back again nothing is lost, and nothing is new."""
    path = tmp_path / "memory.jsonl"
    with new_file(path) as write:
        export(graph, write)
    with Memory.open(f"sqlite:///{tmp_path / 'other.db'}", redactor=Redactor()) as other:
        import_file(other, path)
        assert exported(other.graph)[0] == path.read_bytes()
    before = graph.read()
    import_file(Memory(ow, redactor=Redactor()), path)
    assert graph.read() == before


def test_an_entity_with_too_much_is_named(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into one answer is cut, and said to be."""
    monkeypatch.setattr("onceward.memory.graph.graph_reads.OBSERVATIONS_MAX", 1)
    _, done = exported(graph)
    assert done.cut == [f"p{number}" for number in range(5)]


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """A write that fails in the middle leaves no file, and an earlier file stays."""
    path = tmp_path / "out.jsonl"

    def write_and_fail() -> None:
        with new_file(path, replace=True) as write:
            write(b"new")
            raise DiskFull

    with pytest.raises(DiskFull):
        write_and_fail()
    assert list(tmp_path.iterdir()) == []
    path.write_text("old")
    with pytest.raises(DiskFull):
        write_and_fail()
    assert path.read_text() == "old"
    with new_file(path, replace=True) as write:
        write(b"ne")
        write(b"w")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("replace", [True, False])
def test_what_is_no_file_is_never_replaced(tmp_path: Path, replace: bool) -> None:
    """A pipe, a device, or a link to one, would be lost to its users."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(os.devnull)
    for path in (pipe, link):
        with (
            pytest.raises(InvalidArgument, match="is not a regular file"),
            new_file(path, replace=replace) as write,
        ):
            write(b"new")
    assert pipe.is_fifo()
    assert link.is_char_device()
    assert sorted(tmp_path.iterdir()) == [link, pipe]


def test_a_file_that_is_there_is_not_replaced_unasked(tmp_path: Path) -> None:
    """An export never costs another file."""
    path = tmp_path / "out.jsonl"
    path.write_text("mine")
    with pytest.raises(Conflict), new_file(path) as write:
        write(b"new")
    assert path.read_text() == "mine"
