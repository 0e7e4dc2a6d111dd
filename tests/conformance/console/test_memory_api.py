"""The console's memory on both engines: search, one entity, its surroundings, and bringing back."""

from __future__ import annotations

from typing import Any

import pytest

from onceward.client import Onceward
from onceward.console.actions import ActionExecutor
from onceward.console.memory_http import memory_router
from onceward.memory import Graph
from onceward.memory.entity_pages import COUNT_MAX
from onceward.memory.models import (
    Link,
    NewEntity,
    NewObservations,
    Removal,
    WriteBatch,
    WriteOrigin,
)
from onceward.system import SystemClock
from tests.support import memory_records
from tests.support.console_over_store import context_of
from tests.support.console_requests import Asking, error_of

HOSTILE = "<img src=x onerror=alert(1)> ' \" % _ \\ \u202e 👩‍👩‍👧"


class Site(Asking):
    """The routes of a memory, and the graph that they read."""

    def __init__(self, ow: Onceward, *, is_read_only: bool = False) -> None:
        self.ow, self.graph = ow, Graph(ow.store)
        context = context_of(ow, is_read_only=is_read_only)
        super().__init__(memory_router(context, ActionExecutor(context)))

    def add(self, name: str, *observations: str, kind: str = "Thing") -> None:
        entity = NewEntity(name=name, entity_type=kind, observations=observations)
        self.graph.write(WriteBatch(entities=(entity,)), WriteOrigin(source="test", run="run-1"))

    def link(self, *pairs: tuple[str, str]) -> None:
        links = tuple(Link(from_name=a, to_name=b, relation_type="near") for a, b in pairs)
        self.graph.write(WriteBatch(relations=links))

    def names(self, **query: Any) -> list[str]:
        return [each["name"] for each in self.body("/api/memory/search", **query)["items"]]

    def around(self, name: str, **query: Any) -> Any:
        return self.body("/api/memory/neighbourhood", name=name, **query)


@pytest.fixture
def site(ow: Onceward) -> Site:
    return Site(ow)


# --- the list -------------------------------------------------------------------------------------


def test_without_words_the_newest_come_first(site: Site) -> None:
    """Page by page, each once, whatever is added meanwhile."""
    for number in range(7):
        site.add(f"e{number}", f"about {number}")
    site.graph.remove(Removal(entities=("e3",)))
    found: list[str] = []
    after: str | None = None
    while True:
        query = {"after": after} if after else {}
        page = site.body("/api/memory/search", limit=2, **query)
        found += [each["name"] for each in page["items"]]
        after = page["next"]
        if after is None:
            break
        site.add(f"later {len(found)}")
    assert found == ["e6", "e5", "e4", "e2", "e1", "e0"]


def test_an_entity_in_the_list(site: Site) -> None:
    """Its newest observation in words, and how many there are."""
    site.add("bare")
    site.add("tea", "black", "green  \n leaves", kind="Drink")
    tea, bare = site.body("/api/memory/search")["items"]
    assert (tea["entity_type"], tea["observations_count"], tea["headline"]) == (
        "Drink",
        2,
        "green leaves",
    )
    assert (bare["observations_count"], bare["headline"]) == (0, "")
    assert set(tea) == {"name", "entity_type", "created_at", "observations_count", "headline"}


def test_many_observations_are_not_counted_to_the_end(site: Site) -> None:
    """Beyond a number it only says that there are more."""
    site.add("full", *map(str, range(COUNT_MAX)))
    assert site.body("/api/memory/search")["items"][0]["observations_count"] == COUNT_MAX
    site.add("full", "one more")
    (item,) = site.body("/api/memory/search")["items"]
    assert (item["observations_count"], item["headline"]) == (None, "one more")
    whole = site.body("/api/memory/entity", name="full")
    assert len(whole["observations"]) == 200
    assert whole["observations"][0]["content"] == "one more"
    assert whole["is_cut"]


def test_words_and_types_choose(site: Site) -> None:
    """As on the command line, and a type by itself."""
    site.add("tea", "a hot drink", kind="Drink")
    site.add("coffee", "a hot drink", kind="Drink")
    site.add("stone", "hot in the sun", kind='Odd "kind"')
    assert set(site.names(q="hot")) == {"tea", "coffee", "stone"}
    assert set(site.names(q="hot", type="Drink")) == set(site.names(type="drink"))
    assert set(site.names(type="Drink")) == {"tea", "coffee"}
    assert site.names(q="hot type:Nothing") == []
    assert site.names(q="!?") == []
    first = site.body("/api/memory/search", q="hot", limit=1)
    rest = site.names(q="hot", limit=5, after=first["next"])
    assert {first["items"][0]["name"], *rest} == {"tea", "coffee", "stone"}
    assert error_of(site.get("/api/memory/search", q="tea", after=first["next"]))[:2] == (
        400,
        "INVALID_CURSOR",
    )


# --- one entity -----------------------------------------------------------------------------------


def test_an_entity_with_its_facts_and_where_they_are_from(site: Site) -> None:
    """Observations newest first, relations at both ends, and what happened to it."""
    site.add("a", "one", HOSTILE)
    site.add("b")
    site.link(("a", "b"), ("b", "a"))
    found = site.body("/api/memory/entity", name="a")
    assert [each["content"] for each in found["observations"]] == [HOSTILE, "one"]
    assert {(each["source"], each["run"]) for each in found["observations"]} == {("test", "run-1")}
    assert {(each["from"], each["to"]) for each in found["relations"]} == {("a", "b"), ("b", "a")}
    assert found["relations"][0]["relation_type"] == "near"
    assert (found["source"], found["run"], found["is_deleted"]) == ("test", "run-1", False)
    assert [each["action"] for each in found["history"]] == ["created"] * 5


def test_a_deleted_entity_is_shown_as_such(site: Site) -> None:
    """Its history stays, and names the change that can be restored."""
    site.add("a", "one")
    site.graph.remove(Removal(entities=("a",)))
    found = site.body("/api/memory/entity", name="a")
    assert (found["is_deleted"], found["observations"], found["relations"]) == (True, [], [])
    assert found["history"][0]["action"] == "deleted"
    assert found["history"][0]["id"] is not None
    assert site.names() == []
    assert error_of(site.get("/api/memory/neighbourhood", name="a"))[:2] == (
        404,
        "ENTITY_NOT_FOUND",
    )


def test_a_long_observation_is_cut_and_says_so(site: Site) -> None:
    """A page need not carry all of it."""
    site.add("a", "x" * 100_000)
    (one,) = site.body("/api/memory/entity", name="a")["observations"]
    assert (len(one["content"]), one["is_cut"]) == (16_000, True)


NAMES = ["unknown", "", "a\0b", "x" * 1999, "\N{GRINNING FACE}" * 500, "%", "' or 1=1 --"]


@pytest.mark.parametrize("route", ["entity", "neighbourhood", "explain"])
def test_an_entity_that_is_not_there(site: Site, route: str) -> None:
    """Whatever its name looks like."""
    for name in NAMES:
        status, code, _ = error_of(site.get(f"/api/memory/{route}", name=name))
        assert (status, code) in ((404, "ENTITY_NOT_FOUND"), (400, "INVALID_ARGUMENT")), name
    assert error_of(site.get(f"/api/memory/{route}"))[0] == 400


# --- what is around it ----------------------------------------------------------------------------


def test_a_neighbourhood_has_what_is_near(site: Site) -> None:
    """One relation away, or two, and what runs between those that are shown."""
    for name in "abcdef":
        site.add(name)
    site.link(("a", "b"), ("c", "a"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"))
    one = site.around("a")
    assert {(each["name"], each["hops"]) for each in one["nodes"]} == {
        ("a", 0),
        ("b", 1),
        ("c", 1),
    }
    assert {(each["from"], each["to"]) for each in one["edges"]} == {
        ("a", "b"),
        ("c", "a"),
        ("b", "c"),
    }
    assert not one["is_cut"]
    two = site.around("a", hops=2)
    assert {each["name"] for each in two["nodes"]} == {"a", "b", "c", "d"}
    assert ("c", "d") in {(each["from"], each["to"]) for each in two["edges"]}
    assert two["nodes"][0] == {"name": "a", "entity_type": "Thing", "hops": 0}


def test_a_neighbourhood_is_cut_where_it_is_large(site: Site) -> None:
    """The middle of everything shows some of it, and says that there is more."""
    names = [f"n{number}" for number in range(300)]
    entities = [NewEntity(name=name, entity_type="t") for name in ("hub", "far", *names)]
    site.graph.write(WriteBatch(entities=tuple(entities)))
    site.link(*((name, "hub") for name in names), ("far", "n0"))
    near = site.around("hub", limit=50)
    assert (len(near["nodes"]), near["is_cut"]) == (50, True)
    assert len(near["edges"]) == 49
    far = site.around("far", hops=2)
    assert {each["name"] for each in far["nodes"]} == {"far", "n0", "hub"}
    assert not far["is_cut"]
    farther = site.around("n0", hops=2)
    assert farther["is_cut"]
    assert len(farther["nodes"]) < 50
    assert len(site.body("/api/memory/entity", name="hub")["relations"]) == 200


def test_a_deleted_neighbour_is_none(site: Site) -> None:
    """Neither it nor what led to it."""
    for name in "abc":
        site.add(name)
    site.link(("a", "b"), ("a", "c"))
    site.graph.remove(Removal(entities=("b",)))
    found = site.around("a")
    assert {each["name"] for each in found["nodes"]} == {"a", "c"}
    assert len(found["edges"]) == 1


# --- where it came from ---------------------------------------------------------------------------


def test_provenance_leads_back_to_the_run(site: Site) -> None:
    """The fields of an explanation, in the console's spelling."""
    writer = memory_records.recorder(site.graph, SystemClock())
    run = memory_records.run(writer)
    issue = memory_records.error(writer, memory_records.command(writer, run.name).name)
    found = site.body("/api/memory/explain", name=issue.name)
    assert (found["name"], found["runs"]) == (issue.name, [run.name])
    assert [each["relation_type"] for each in found["chain"]] == ["EMITS", "EXECUTES"]
    assert (found["facts"][0]["source"], found["is_cut"]) == ("test", False)
    headline = site.body("/api/memory/search", q=issue.name)["items"][0]["headline"]
    assert headline.startswith(memory_records.MESSAGE)
    site.add("a", "one", "two")
    site.add("b")
    site.link(("a", "b"))
    first = site.body("/api/memory/entity", name="a")["observations"][1]
    explained = site.body("/api/memory/explain", name="a", observation=first["id"])
    assert [each["content"] for each in explained["facts"]] == ["one"]
    assert explained["facts"][0]["stored_at"] == first["created_at"]
    assert (explained["relations"][0]["from"], explained["relations"][0]["to"]) == ("a", "b")
    for number in (first["id"] + 1000, 2**62):
        response = site.get("/api/memory/explain", name="a", observation=number)
        assert error_of(response) == (404, "NOT_FOUND", "observation")
    response = site.get("/api/memory/explain", name="b", observation=first["id"])
    assert error_of(response)[0] == 404


# --- bringing back --------------------------------------------------------------------------------


def counts(restored: dict[str, Any]) -> tuple[int, int, int]:
    return restored["entities"], restored["observations"], restored["relations"]


def test_a_restoration_is_thought_through_and_then_done(site: Site) -> None:
    """The dry run changes nothing, needs no key, and says exactly what will come."""
    for name in "abc":
        site.add(name, "one", "two")
    site.link(("a", "b"), ("c", "a"))
    site.graph.remove(Removal(entities=("c",)))
    site.graph.remove(Removal(entities=("a",)))
    thought = site.done("/api/memory/restore", None, name="a", dry_run=True)
    assert (counts(thought), thought["dry_run"]) == ((1, 2, 1), True)
    assert thought["message"].startswith("would restore 1 entity")
    assert site.body("/api/memory/entity", name="a")["is_deleted"]
    done = site.done("/api/memory/restore", name="a")
    assert (counts(done), done["dry_run"]) == ((1, 2, 1), False)
    assert done["receipt"]["action"] == "memory.restore"
    assert not site.body("/api/memory/entity", name="a")["is_deleted"]
    last = site.body("/api/memory/entity", name="a")["history"][0]
    assert (last["action"], last["source"]) == ("restored", "ann, in the console")
    again = site.done("/api/memory/restore", name="a")
    assert (counts(again), again["changes"]) == ((0, 0, 0), [])


def test_a_change_is_restored_by_its_number(site: Site) -> None:
    """Also one of an observation; what is no deletion is refused, thought through or not."""
    site.add("a", "one")
    site.graph.remove(_observation("a", "one"))
    change = site.body("/api/memory/entity", name="a")["history"][0]["id"]
    thought = site.done("/api/memory/restore", None, change=change, dry_run=True)
    done = site.done("/api/memory/restore", change=change)
    assert counts(thought) == counts(done) == (0, 1, 0)
    for dry_run in (True, False):
        response = site.act("/api/memory/restore", change=change + 99, dry_run=dry_run)
        assert error_of(response) == (400, "INVALID_ARGUMENT", "change")


def _observation(name: str, content: str) -> Removal:
    return Removal(observations=(NewObservations(entity_name=name, contents=(content,)),))


def test_what_belongs_to_a_deleted_entity_waits_for_it(site: Site) -> None:
    """The answer names the change to restore first."""
    site.add("a", "one")
    site.graph.remove(_observation("a", "one"))
    change = site.body("/api/memory/entity", name="a")["history"][0]["id"]
    site.graph.remove(Removal(entities=("a",)))
    for dry_run in (True, False):
        response = site.act("/api/memory/restore", change=change, dry_run=dry_run)
        assert error_of(response)[:2] == (409, "CONFLICT")


def test_an_entity_that_was_created_again_says_what_it_lacks(site: Site) -> None:
    """There is nothing to restore by its name, and the change to restore is named."""
    site.add("a", "one")
    site.graph.remove(Removal(entities=("a",)))
    site.add("a", "two")
    for dry_run, key in ((True, None), (False, "")):
        restored = site.done("/api/memory/restore", key, name="a", dry_run=dry_run)
        assert counts(restored) == (0, 0, 0)
        assert len(restored["changes"]) == 1
    done = site.done("/api/memory/restore", change=restored["changes"][0])
    assert counts(done)[1] == 1


def test_a_press_is_carried_out_once(site: Site) -> None:
    """The same key answers the same, though there is nothing left to restore."""
    site.add("a", "one")
    site.graph.remove(Removal(entities=("a",)))
    first = site.act("/api/memory/restore", "k1", name="a")
    second = site.act("/api/memory/restore", "k1", name="a")
    assert counts(first.json()) == counts(second.json()) == (1, 1, 0)
    assert second.headers["idempotent-replayed"] == "true"
    assert error_of(site.act("/api/memory/restore", "k1", name="b"))[:2] == (422, "KEY_REUSED")


def test_a_console_that_only_shows_restores_nothing(ow: Onceward) -> None:
    """It may still think it through."""
    site = Site(ow, is_read_only=True)
    site.add("a", "one")
    site.graph.remove(Removal(entities=("a",)))
    assert error_of(site.act("/api/memory/restore", name="a"))[:2] == (403, "FORBIDDEN")
    assert counts(site.done("/api/memory/restore", None, name="a", dry_run=True)) == (1, 1, 0)


BODIES: list[dict[str, Any]] = [
    {},
    {"name": "a", "change": 1},
    {"name": 5},
    {"name": "a\0b"},
    {"name": "\ud800"},
    {"name": "x" * 3000},
    {"change": 0},
    {"change": 10**30},
    {"change": 1.5},
    {"name": "a", "more": 1},
]


def test_a_bad_restoration_is_refused(site: Site) -> None:
    """With a sentence, whether it is thought through or not."""
    for body in BODIES:
        for dry_run in (True, False):
            response = site.act("/api/memory/restore", **{**body, "dry_run": dry_run})
            assert error_of(response)[0] == 400, body
    assert error_of(site.act("/api/memory/restore", None, name="a"))[0] == 400


PARAMETERS: list[tuple[str, dict[str, Any]]] = [
    ("search", {"limit": "0"}),
    ("search", {"after": "x"}),
    ("search", {"after": "9" * 30}),
    ("search", {"q": "tea", "after": "x"}),
    ("search", {"q": "tea", "after": "e30"}),
    ("search", {"q": "x" * 2001}),
    ("search", {"type": "x" * 501}),
    ("neighbourhood", {"name": "a", "hops": "3"}),
    ("neighbourhood", {"name": "a", "hops": "0"}),
    ("neighbourhood", {"name": "a", "limit": "501"}),
    ("neighbourhood", {"name": "a", "limit": "-1"}),
    ("explain", {"name": "a", "observation": "0"}),
    ("explain", {"name": "a", "observation": "9" * 25}),
]


def test_a_bad_parameter_is_refused(site: Site) -> None:
    """With a sentence, never with a failure."""
    site.add("a")
    for route, query in PARAMETERS:
        assert error_of(site.get(f"/api/memory/{route}", **query))[0] == 400, (route, query)
    for odd in ("a\0b", "\N{GRINNING FACE}", "' or 1=1", '"', "type:", "key:"):
        site.names(q=odd)
        site.names(type=odd)
