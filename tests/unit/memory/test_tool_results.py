"""Tool results: pages that fit, no omitted entities, and marked truncation."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from onceward.errors import InvalidArgument
from onceward.memory.mcp import tool_handlers
from onceward.memory.mcp.tool_handlers import RESULT_BYTES_MAX, fitting, fitting_page, pretty

Shape = dict[str, Any]


def graph(entities: int, facts: int, fact_bytes: int) -> Shape:
    return {
        "entities": [
            {
                "name": f"e{number}",
                "entityType": "t",
                "observations": [f"{each:03}".ljust(fact_bytes, "x") for each in range(facts)],
            }
            for number in range(entities)
        ],
        "relations": [],
    }


def size(shape: Shape) -> int:
    return len(orjson.dumps(shape))


def test_what_fits_stays_as_it_is() -> None:
    """Nothing is added to an answer that is small enough."""
    small = graph(3, 2, 10)
    assert fitting(small) is small


def test_a_page_that_is_too_large_is_asked_for_again_smaller() -> None:
    """The page that is given is one that the graph gave, cursor and all."""
    whole = graph(100, 1, 100_000)
    asked: list[int | None] = []

    def ask(limit: int | None) -> Shape:
        asked.append(limit)
        count = 100 if limit is None else limit
        more = {"nextCursor": str(count)} if count < 100 else {}
        return {**whole, "entities": whole["entities"][:count], **more}

    page = fitting_page(ask, None)
    assert size(page) <= RESULT_BYTES_MAX
    assert 30 < len(page["entities"]) < 45
    assert page["nextCursor"] == str(len(page["entities"]))
    assert "isCut" not in page
    assert len(asked) <= 4


def test_a_page_that_was_cut_is_asked_for_again_smaller() -> None:
    """No entity looks as if it had no facts, because there were too many for one page."""
    whole = graph(100, 2, 10)

    def ask(limit: int | None) -> Shape:
        count = 100 if limit is None else limit
        found = [*whole["entities"][:count]]
        if count <= 30:
            return {"entities": found, "relations": [], "nextCursor": str(count)}
        empty = [{**each, "observations": []} for each in found[:-30]]
        return {"entities": [*empty, *found[-30:]], "relations": [], "isCut": True}

    page = fitting_page(ask, None)
    assert "isCut" not in page
    assert all(each["observations"] for each in page["entities"])
    assert page["nextCursor"] == str(len(page["entities"])) == "25"
    cut: Shape = {**graph(1, 2, 10), "isCut": True}
    assert fitting_page(lambda _: cut, None) is cut


def test_one_entity_that_is_too_large_keeps_its_newest_facts() -> None:
    """It stays, and the answer says that something was left out."""
    page = fitting_page(lambda _: graph(1, 100, 100_000), 1)
    [one] = page["entities"]
    assert size(page) <= RESULT_BYTES_MAX
    assert page["isCut"] is True
    assert 30 < len(one["observations"]) < 45
    assert one["observations"][-1].startswith("099")


def test_every_entity_that_was_asked_for_is_there() -> None:
    """Leaving one out would say that it does not exist; small ones keep all of their facts."""
    whole = graph(50, 3, 60_000)
    whole["entities"][0]["observations"] = ["short"]
    cut = fitting(whole)
    assert size(cut) <= RESULT_BYTES_MAX
    assert [each["name"] for each in cut["entities"]] == [f"e{number}" for number in range(50)]
    assert cut["entities"][0]["observations"] == ["short"]
    assert cut["isCut"] is True


def test_names_alone_that_are_too_many_are_refused() -> None:
    """No complete answer fits then, so the caller gets an error that asks for fewer names."""
    huge = graph(3_000, 0, 0)
    for each in huge["entities"]:
        each["name"] = "n" * 2_000
    with pytest.raises(InvalidArgument, match="names: "):
        fitting(huge)


def test_relations_are_truncated_after_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of the answer goes to the newest relations."""
    monkeypatch.setattr(tool_handlers, "RESULT_BYTES_MAX", 2_000)
    whole = graph(1, 1, 10)
    whole["relations"] = [{"from": "e0", "to": f"e{each}"} for each in range(500)]
    cut = fitting(whole)
    assert size(cut) <= 2_100
    assert cut["entities"] == whole["entities"]
    assert cut["relations"] == whole["relations"][-len(cut["relations"]) :]
    assert len(cut["relations"]) > 10


def test_text_reads_as_others_write_it() -> None:
    """Two spaces a level, characters as they are."""
    assert pretty([{"a": ["ä"], "b": []}]) == (
        '[\n  {\n    "a": [\n      "ä"\n    ],\n    "b": []\n  }\n]'
    )
