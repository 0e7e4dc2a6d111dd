"""Canonical names: one name for each concept, file and dependency in every operation."""

import pytest

from onceward.client import Onceward
from onceward.errors import EntityMissing
from onceward.memory import Graph, Memory, Validation
from onceward.system.redaction import Redactor
from tests.support.graph_writes import create, entity

CONCEPT = (
    "concept#Rate Limiting",
    "concept#rate-limiting",
    "concept#rate_limiting",
    "concept#RATE  limiting",
)
FILE = ("file#./src/app.py", "file#src/app.py", "file#src//app.py", "file#src\\app.py")
DEPENDENCY = (
    "dep#Ruamel.YAML@1.0",
    "dep#ruamel-yaml@1.0",
    "dep#ruamel_yaml@1.0",
    "dep#ruamel__yaml@1.0",
)
SPELLINGS = [
    pytest.param(CONCEPT, "Concept", id="concept"),
    pytest.param(FILE, "File", id="file"),
    pytest.param(DEPENDENCY, "Dependency", id="dependency"),
    pytest.param(("cafe\u0301", "caf\u00e9", "cafe\u0301", "caf\u00e9"), "place", id="plain name"),
]


@pytest.fixture
def memory(ow: Onceward) -> Memory:
    return Memory(ow, redactor=Redactor())


def _names(found: dict[str, list[dict[str, str]]]) -> list[str]:
    return [each["name"] for each in found["entities"]]


@pytest.mark.parametrize(("spellings", "kind"), SPELLINGS)
def test_h62_four_spellings_are_one_entity(
    memory: Memory, spellings: tuple[str, ...], kind: str
) -> None:
    """Created, observed, related, opened, searched, explained and deleted by any of them."""
    first, canonical, third, fourth = spellings
    made = memory.create_entities(
        [
            {"name": each, "entityType": kind, "observations": [f"fact {place}"]}
            for place, each in enumerate(spellings)
        ]
    )
    assert _names(made) == [canonical]
    assert memory.graph.counts().entities == 1
    memory.create_entities([{"name": "other", "entityType": "thing"}])
    assert memory.add_observations([{"entityName": third, "contents": ["more", "fact 0"]}]) == {
        "results": [{"entityName": canonical, "addedObservations": ["more"]}]
    }
    related = [{"from": "other", "to": each, "relationType": "knows"} for each in spellings]
    assert [e["to"] for e in memory.create_relations(related)["relations"]] == [canonical]
    for each in spellings:
        assert _names(memory.open_nodes([each])) == [canonical]
        assert _names(memory.search_nodes(each))[0] == canonical
        assert _names(memory.search_nodes(f'key:"{each}"')) == [canonical]
        assert memory.explain(each)["name"] == canonical
        assert memory.recall(each)["names"][0] == canonical
        assert memory.history(each)["changes"]
    facts = memory.open_nodes([fourth])["entities"][0]["observations"]
    assert facts == [*(f"fact {place}" for place in range(4)), "more"]
    gone = memory.delete_observations([{"entityName": fourth, "observations": ["more"]}])
    assert gone["observations"] == 1
    assert memory.delete_relations([related[2]])["relations"] == 1
    assert memory.delete_entities([first])["entities"] == 1
    assert memory.restore(name=third)["entities"] == 1
    assert _names(memory.open_nodes([first])) == [canonical]
    assert memory.graph.problems() == []


def test_h62_records_use_one_spelling(memory: Memory) -> None:
    """Tools that make names from arguments make the same ones."""
    for place, (concept, dependency) in enumerate(zip(CONCEPT, DEPENDENCY, strict=True)):
        memory.record_error(
            "boom happened",
            kind="E",
            detector="human",
            concepts=[concept, concept.removeprefix("concept#")],
            dependency=dependency.removeprefix("dep#") if place % 2 else dependency,
        )
    run = memory.record_run(
        started_at="2026-02-06T12:00:00Z",
        cmd="make",
        exit_code=0,
        summary="done",
        success=True,
        duration_ms=1,
        files=[*FILE, *(each.removeprefix("file#") for each in FILE)],
    )
    assert [e["name"] for e in run["related"]] == ["file#src/app.py"]
    assert [e["to"] for e in run["relations"]] == ["file#src/app.py"]
    assert sorted(_names(memory.read_graph())) == sorted(
        [
            "concept#rate-limiting",
            "dep#ruamel-yaml@1.0",
            "err#boom happened",
            run["name"],
            "file#src/app.py",
        ]
    )


def test_h62_paths_below_the_repository_are_relative_to_it(ow: Onceward) -> None:
    """By the directory that the memory is given, or by the repository of a record."""
    memory = Memory(ow, redactor=Redactor(), root="/work/shop")
    memory.create_entities([{"name": "file#/work/shop/./a.py", "entityType": "File"}])
    other = Memory(ow, redactor=Redactor(), repo="/home/ada/shop")
    other.record_run(
        started_at="2026-02-06T12:00:00Z", cmd="make", exit_code=0, summary="s", success=True,
        duration_ms=1, files=["/home/ada/shop/a.py", "a.py", "/etc/hosts"],
    )  # fmt: skip
    found = [name for name in _names(memory.read_graph()) if name.startswith("file#")]
    assert found == ["file#a.py", "file#/etc/hosts"]


def test_h62_messages_and_commands_are_normalised_too(memory: Memory) -> None:
    """An issue or a command with a composed or decomposed character is the same one."""
    composed, decomposed = "caf\u00e9 is closed", "cafe\u0301 is closed"
    first = memory.record_error(composed, kind="E", detector="human")
    again = memory.record_error(decomposed, kind="E", detector="human")
    assert first["name"] == again["name"] == "err#caf\u00e9 is closed"
    fix = memory.record_fix(decomposed, strategy="open it")
    assert fix["name"].startswith("fix#err#caf\u00e9 is closed#")
    memory.record_command(decomposed, exit_code=0)
    assert memory.recall(composed)["names"]
    assert [each["status"] for each in fix["relations"]] == ["created"]


def test_h62_an_old_spelling_is_still_found_by_it(ow: Onceward, memory: Memory) -> None:
    """An entity stored before names were canonical is opened, explained and deleted by its name."""
    memory.create_entities([{"name": "old", "entityType": "Concept-ish"}])
    ow.store.write(
        lambda tx: tx.execute("update memory_entities set name = ?", ["concept#Old Name"])
    )
    assert _names(memory.open_nodes(["concept#Old Name"])) == ["concept#Old Name"]
    assert memory.explain("concept#Old Name")["name"] == "concept#Old Name"
    assert memory.history("concept#Old Name")["changes"]
    with pytest.raises(EntityMissing):
        memory.explain("concept#old name")
    assert memory.delete_entities(["concept#Old Name"])["entities"] == 1
    assert memory.restore(name="concept#Old Name")["entities"] == 1


@pytest.mark.parametrize("validation", list(Validation))
def test_h62_names_are_canonical_whatever_is_checked(ow: Onceward, validation: Validation) -> None:
    """Also a memory that checks nothing keeps one spelling."""
    graph = Graph(ow.store, redactor=Redactor(), validation=validation)
    memory = Memory(ow, redactor=Redactor(), validation=validation)
    made = memory.create_entities([{"name": CONCEPT[0], "entityType": "Concept"}])
    assert _names(made) == [CONCEPT[1]]
    assert graph.open([CONCEPT[2]]).entities


OLD, NEW = "concept#Old Name", "concept#old-name"


@pytest.fixture
def doubled(ow: Onceward, memory: Memory) -> Memory:
    """Return a memory with an entity under an old spelling, and one under the canonical name."""
    lenient = Memory(ow, redactor=Redactor(), validation="lenient")
    facts = ["shared", "own"]
    lenient.create_entities(
        [
            {"name": "old", "entityType": "Concept", "observations": facts},
            {"name": NEW, "entityType": "Concept", "observations": facts},
            {"name": "x", "entityType": "thing"},
        ]
    )
    related = [{"from": "x", "to": each, "relationType": "knows"} for each in ("old", NEW)]
    lenient.create_relations(related)
    ow.store.write(
        lambda tx: tx.execute("update memory_entities set name = ? where name = ?", [OLD, "old"])
    )
    return memory


def _facts(memory: Memory, name: str) -> list[str]:
    return next(
        list(each["observations"])
        for each in memory.open_nodes([name])["entities"]
        if each["name"] == name
    )


def test_h62_a_delete_by_a_stored_spelling_deletes_that_one(doubled: Memory) -> None:
    """Facts, relations and the entity itself; the canonical one keeps all of its own."""
    gone = doubled.delete_observations([{"entityName": OLD, "observations": ["shared"]}])
    assert gone["observations"] == 1
    link = {"from": "x", "to": OLD, "relationType": "knows"}
    assert doubled.delete_relations([link, link])["relations"] == 1
    assert (_facts(doubled, OLD), _facts(doubled, NEW)) == (["own"], ["shared", "own"])
    deleted = doubled.delete_entities([OLD])
    assert (deleted["entities"], deleted["observations"], deleted["relations"]) == (1, 1, 0)
    for _ in range(2):  # A repeated call does not delete the next one.
        assert doubled.delete_entities([OLD])["entities"] == 0
        assert doubled.delete_relations([{**link, "to": OLD}])["relations"] == 0
        gone = doubled.delete_observations([{"entityName": OLD, "observations": ["shared"]}])
        assert gone["observations"] == 0
    assert sorted(_names(doubled.read_graph())) == [NEW, "x"]
    assert _facts(doubled, NEW) == ["shared", "own"]
    assert len(doubled.open_nodes([NEW])["relations"]) == 1
    assert [each["text"] for each in doubled.history(OLD)["changes"][:1]] == [OLD]
    assert doubled.restore(name=OLD)["entities"] == 1
    assert _facts(doubled, OLD) == ["own"]


def test_h62_a_delete_by_any_other_spelling_deletes_the_canonical_one(doubled: Memory) -> None:
    """As every write does; each of several is deleted once."""
    assert doubled.delete_entities(["concept#OLD name", "concept#old_name"])["entities"] == 1
    assert sorted(_names(doubled.read_graph())) == [OLD, "x"]
    assert doubled.restore(name=NEW)["entities"] == 1
    assert doubled.delete_entities([OLD, NEW, OLD])["entities"] == 2
    assert _names(doubled.read_graph()) == ["x"]


def test_h62_a_write_to_an_old_spelling_says_how_to_merge_it(doubled: Memory) -> None:
    """Nothing is written then; after the merge the same call reaches the entity."""
    doubled.delete_entities([NEW])
    fact = [{"entityName": OLD, "contents": ["more"]}]
    link = [{"from": "x", "to": OLD, "relationType": "is like"}]
    with pytest.raises(EntityMissing, match=NEW) as caught:
        doubled.add_observations(fact)
    assert "onceward memory merge --yes" in caught.value.fix
    assert repr(OLD) in caught.value.fix
    with pytest.raises(EntityMissing, match=NEW) as caught:
        doubled.create_relations(link)
    assert "onceward memory merge --yes" in caught.value.fix
    with pytest.raises(EntityMissing) as caught:
        doubled.add_observations([{"entityName": "concept#No Such", "contents": ["more"]}])
    assert "merge" not in caught.value.fix
    doubled.graph.merge_names()
    assert doubled.add_observations(fact)["results"][0]["entityName"] == NEW
    assert len(doubled.create_relations(link)["relations"]) == 1


def test_h62_a_root_that_holds_a_secret_is_taken_off_all_the_same(ow: Onceward) -> None:
    """Names are redacted first, so the root must be, or a replay would name a file differently."""
    graph = Graph(ow.store, redactor=Redactor(["myproject"]), root="/home/u/myproject")
    create(graph, entity("file#/home/u/myproject/src/a.py", kind="File"))
    assert [each.name for each in graph.read().entities] == ["file#src/a.py"]
