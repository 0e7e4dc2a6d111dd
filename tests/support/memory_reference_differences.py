"""Differences between the reference memory server and ours: the calls, and a check of each."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.support.mcp_clients import GRAPH, NINE, entity, relation

Step = dict[str, Any]


def call(tool: str, **arguments: Any) -> Step:
    return {"tool": tool, "arguments": arguments}


def names(answer: dict[str, Any]) -> list[str]:
    return [each["name"] for each in answer["data"]["entities"]]


def facts(answer: dict[str, Any]) -> list[str]:
    [one] = answer["data"]["entities"]
    found: list[str] = one["observations"]
    return found


ENVELOPE = {"type": "doc.note", "mode": "m", "repo": "r", "branch": "b"}
NOTE = {"url": "https://example.test/", "accessed_at": "2026-02-06"}
SECRET = "ghp_" + "a1B2" * 9

#: What each difference asks of both servers, in one sitting; names are its own.
STEPS: dict[str, list[Step]] = {
    "concurrent-calls": [
        {"parallel": [call("create_entities", entities=[entity(f"cc{n}")]) for n in range(20)]},
        call("open_nodes", names=[f"cc{n}" for n in range(20)]),
    ],
    "twice-in-a-batch": [
        call("create_entities", entities=[entity("tb", "one"), entity("tb", "two")]),
        call("open_nodes", names=["tb"]),
    ],
    "same-fact-twice": [
        call("create_entities", entities=[entity("sf", "one", "one")]),
        call("add_observations", observations=[{"entityName": "sf", "contents": ["two", "two"]}]),
        call("open_nodes", names=["sf"]),
    ],
    "same-relation-twice": [
        call("create_entities", entities=[entity("sr1"), entity("sr2")]),
        call("create_relations", relations=[relation("sr1", "sr2"), relation("sr1", "sr2")]),
    ],
    "facts-of-a-known-entity": [
        call("create_entities", entities=[entity("fk", "one")]),
        call("create_entities", entities=[entity("fk", "two")]),
        call("open_nodes", names=["fk"]),
    ],
    "says-what-was-known": [
        call("create_entities", entities=[entity("sw", kind="person")]),
        call("create_entities", entities=[entity("sw", kind="robot")]),
    ],
    "dangling-relation": [
        call("create_entities", entities=[entity("dr")]),
        call("create_relations", relations=[relation("dr", "dr"), relation("dr", "ghost")]),
        call("open_nodes", names=["dr"]),
    ],
    "same-envelope-later": [
        call("create_entities", entities=[entity("se")]),
        *(
            call("add_observations", observations=[{
                "entityName": "se", "contents": [json.dumps({**ENVELOPE, "ts": ts, "data": NOTE})],
            }])
            for ts in ("2026-02-06T12:00:00Z", "2026-02-07T12:00:00Z")
        ),
        call("open_nodes", names=["se"]),
    ],
    "secrets": [
        call("create_entities", entities=[entity("sc", f"the token is {SECRET}")]),
        call("open_nodes", names=["sc"]),
    ],
    "created-again": [
        call("create_entities", entities=[entity("ca1", "old"), entity("ca2")]),
        call("delete_entities", entityNames=["ca1"]),
        call("create_entities", entities=[entity("ca1", "new")]),
        call("open_nodes", names=["ca1", "ca2"]),
    ],
    "deletion-is-counted": [
        call("create_entities", entities=[entity("dc", "one")]),
        call("delete_entities", entityNames=["dc"]),
    ],
    "search-by-words": [
        call("create_entities", entities=[entity("sb", "unbreakable kettles whistle")]),
        call("search_nodes", query="breakable"),
        call("search_nodes", query="whistle kett"),
    ],
    "best-first": [
        call("create_entities", entities=[entity("bf1", "about teapots"), entity("teapots")]),
        call("search_nodes", query="teapots"),
    ],
    "pages": [
        call("create_entities", entities=[entity("pg1", "paging"), entity("pg2", "paging")]),
        call("search_nodes", query="paging", limit=1),
    ],
    "unusable-names": [
        call("create_entities", entities=[entity("")]),
        call("create_entities", entities=[entity("nul\0")]),
        call("create_entities", entities=[entity("x" * 2001)]),
    ],
    "one-spelling": [
        call("create_entities", entities=[entity("A\u0308"), entity("\u00c4")]),
        call("create_entities", entities=[
            entity(each, kind="Concept") for each in ("concept#Two Words", "concept#two_words")
        ]),
    ],
    "policy-words": [
        call("create_entities", entities=[entity("pw", kind="Error")]),
        call("create_entities", entities=[entity("err#pw", kind="bug")]),
    ],
    "other-spellings": [
        call("create_entities", entities=[{"name": "os1", "type": "t"}]),
        call("create_entities", name="os2", type="t", observation={"a": 1}),
        call("create_relations", relations=[{"source": "os1", "target": "os2", "type": "r"}]),
    ],
    "errors-name-the-place": [
        call("create_entities", entities=[entity("ep"), {"name": 5, "entityType": "t"}]),
    ],
    "honest-hints": [{"list": "tools"}],
    "more-tools": [{"list": "tools"}, {"list": "resources"}],
    "news-of-changes-only": [
        {"subscribe": GRAPH},
        call("create_entities", entities=[entity("nc")]),
        call("create_entities", entities=[entity("nc")]),
        call("read_graph"),
        {"updates": True},
    ],
}  # fmt: skip


def concurrent_calls(theirs: list[Any], own: list[Any]) -> None:
    assert all(not each["isError"] for each in (*theirs[0], *own[0]))
    assert len(names(theirs[1])) < 20
    assert sorted(names(own[1])) == sorted(f"cc{number}" for number in range(20))


def twice_in_a_batch(theirs: list[Any], own: list[Any]) -> None:
    assert names(theirs[1]) == ["tb", "tb"]
    assert facts(own[1]) == ["one", "two"]


def same_fact_twice(theirs: list[Any], own: list[Any]) -> None:
    assert facts(theirs[2]) == ["one", "one", "two", "two"]
    assert facts(own[2]) == ["one", "two"]


def same_relation_twice(theirs: list[Any], own: list[Any]) -> None:
    assert theirs[1]["data"]["relations"] == [relation("sr1", "sr2")] * 2
    assert own[1]["data"]["relations"] == [relation("sr1", "sr2")]


def facts_of_a_known_entity(theirs: list[Any], own: list[Any]) -> None:
    assert facts(theirs[2]) == ["one"]
    assert facts(own[2]) == ["one", "two"]


def says_what_was_known(theirs: list[Any], own: list[Any]) -> None:
    assert theirs[1]["data"] == {"entities": []}
    known = [{"name": "sw", "entityType": "person", "addedObservations": []}]
    assert own[1]["data"] == {"entities": [], "known": known}
    assert own[1]["texts"][0] == theirs[1]["texts"][0]


def dangling_relation(theirs: list[Any], own: list[Any]) -> None:
    assert len(theirs[2]["data"]["relations"]) == 2
    assert own[1]["isError"]
    assert "'ghost'" in own[1]["texts"][0]
    assert own[2]["data"]["relations"] == []


def same_envelope_later(theirs: list[Any], own: list[Any]) -> None:
    assert len(facts(theirs[3])) == 2
    assert len(facts(own[3])) == 1


def secrets(theirs: list[Any], own: list[Any]) -> None:
    assert facts(theirs[1]) == [f"the token is {SECRET}"]
    assert facts(own[1]) == ["the token is [redacted]"]


def created_again(theirs: list[Any], own: list[Any]) -> None:
    assert names(theirs[3]) == ["ca2", "ca1"]
    assert names(own[3]) == ["ca1", "ca2"]
    new = [entity("ca1", "new")]
    assert theirs[2]["data"]["entities"] == own[2]["data"]["entities"] == new


def deletion_is_counted(theirs: list[Any], own: list[Any]) -> None:
    message = "Entities deleted successfully"
    assert theirs[1]["data"] == {"success": True, "message": message}
    counted = {"entities": 1, "observations": 1, "relations": 0}
    message = "deleted: 1 entity, 1 observation"
    assert own[1]["data"] == {"success": True, "message": message, **counted}
    assert own[1]["texts"] == [message]


def search_by_words(theirs: list[Any], own: list[Any]) -> None:
    assert [names(each) for each in theirs[1:]] == [["sb"], []]
    assert [names(each) for each in own[1:]] == [[], ["sb"]]


def best_first(theirs: list[Any], own: list[Any]) -> None:
    assert names(theirs[1]) == ["bf1", "teapots"]
    assert names(own[1]) == ["teapots", "bf1"]


def pages(theirs: list[Any], own: list[Any]) -> None:
    assert len(names(theirs[1])) == 2
    assert len(names(own[1])) == 1
    assert own[1]["data"]["nextCursor"]


def unusable_names(theirs: list[Any], own: list[Any]) -> None:
    assert [each["isError"] for each in theirs] == [False] * 3
    assert [each["isError"] for each in own] == [True] * 3
    assert all("entities[0].name" in each["texts"][0] for each in own)


def one_spelling(theirs: list[Any], own: list[Any]) -> None:
    assert [len(names(each)) for each in theirs] == [2, 2]
    assert [names(each) for each in own] == [["\u00c4"], ["concept#two-words"]]


def policy_words(theirs: list[Any], own: list[Any]) -> None:
    assert [each["isError"] for each in theirs] == [False] * 2
    assert [each["isError"] for each in own] == [True] * 2
    assert "begin it with err#" in own[0]["texts"][0]


def other_spellings(theirs: list[Any], own: list[Any]) -> None:
    assert [each["isError"] for each in theirs] == [True] * 3
    assert [each["isError"] for each in own] == [False] * 3
    assert own[1]["data"]["entities"] == [entity("os2", '{"a":1}', kind="t")]
    assert own[2]["data"]["relations"] == [relation("os1", "os2", "r")]


def errors_name_the_place(theirs: list[Any], own: list[Any]) -> None:
    assert theirs[0]["isError"]
    assert "fix:" not in theirs[0]["texts"][0]
    assert own[0]["isError"]
    assert re.match(r"entities\[1\]\.name: .+\nfix: ", own[0]["texts"][0])


def honest_hints(theirs: list[Any], own: list[Any]) -> None:
    hints = [{each["name"]: each["annotations"] for each in side[0]} for side in (theirs, own)]
    assert hints[0]["create_entities"]["idempotentHint"] is False
    for name in NINE:
        assert hints[1][name]["idempotentHint"] is True
        for hint in ("readOnlyHint", "destructiveHint", "openWorldHint"):
            assert hints[1][name][hint] == hints[0][name][hint], name


def more_tools(theirs: list[Any], own: list[Any]) -> None:
    assert [each["name"] for each in theirs[0]] == NINE
    assert [each["name"] for each in own[0]][: len(NINE)] == NINE
    assert len(own[0]) == len(NINE) + 8
    assert [each["uri"] for each in theirs[1]] == [GRAPH]
    assert [each["uri"] for each in own[1]] == [GRAPH, "memory://policy"]


def news_of_changes_only(theirs: list[Any], own: list[Any]) -> None:
    assert (theirs[-1], own[-1]) == (2, 1)
