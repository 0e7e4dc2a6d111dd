"""Partitions of a table: a line of its own for every value of a column, on both engines."""

import pytest

from onceward.client import Onceward
from onceward.errors import InvalidArgument, SourceRefused
from onceward.workers import App, Message, Worker
from onceward.workers.sources import TablePartitions
from tests.support.user_tables import add, make_leads, names


@pytest.fixture
def leads(ow: Onceward) -> Onceward:
    make_leads(ow)
    return ow


def test_each_value_is_a_line_of_its_own(leads: Onceward) -> None:
    """Rows without a value are in none of them."""
    add(leads, "a", "b", niche=7)
    add(leads, "c", niche=-8)
    add(leads, "d", niche=None)
    partitions = TablePartitions(leads, "leads", by="niche_id")
    assert sorted(partitions.active(None).keys) == ["-8", "7"]
    assert names(partitions.source("7")) == ["a", "b"]
    assert names(partitions.source("-8")) == ["c"]
    assert names(partitions.source("9")) == []
    assert partitions.source("7").lag(None).messages == 2


def test_only_what_came_since_a_marker_is_active(leads: Onceward) -> None:
    """A key is named once for each time that something came."""
    partitions = TablePartitions(leads, "leads", by="niche_id")
    empty = partitions.active(None)
    assert list(empty.keys) == []
    add(leads, "a", "b", niche=1)
    first = partitions.active(empty.marker)
    assert list(first.keys) == ["1"]
    assert list(partitions.active(first.marker).keys) == []
    add(leads, "c", niche=2)
    add(leads, "d", niche=None)
    second = partitions.active(first.marker)
    assert list(second.keys) == ["2"]
    assert list(partitions.active(second.marker).keys) == []
    assert sorted(partitions.active(empty.marker).keys) == ["1", "2"]
    assert sorted(partitions.active(None).keys) == ["1", "2"]


@pytest.mark.parametrize("marker", [None, "0"])
def test_keys_may_be_any_text(leads: Onceward, marker: str | None) -> None:
    """Quotes, blanks, nothing at all and other alphabets are values as well."""
    kinds = ["a b", "'", '"', "", "ünï", "a%", "7", "07"]
    for kind in kinds:
        add(leads, kind, kind=kind)
    partitions = TablePartitions(leads, "leads", by="kind")
    assert sorted(partitions.active(marker).keys) == sorted(kinds)
    for kind in kinds:
        assert names(partitions.source(kind)) == [kind]


@pytest.mark.parametrize("is_marked", [False, True])
def test_a_filter_counts_for_partitions_too(leads: Onceward, is_marked: bool) -> None:
    """Keys and rows are those of the rows that fit."""
    partitions = TablePartitions(leads, "leads", by="niche_id", where={"kind": "a"})
    marker = partitions.active(None).marker if is_marked else None
    add(leads, "a", "b", niche=1)
    add(leads, "c", niche=1, kind="z")
    add(leads, "d", niche=2, kind="z")
    assert list(partitions.active(marker).keys) == ["1"]
    assert names(partitions.source("1")) == ["a", "b"]


def test_a_column_that_is_not_there_is_named(leads: Onceward) -> None:
    """Before anything is read."""
    with pytest.raises(SourceRefused, match="no column 'no'"):
        TablePartitions(leads, "leads", by="no").active(None)
    with pytest.raises(InvalidArgument, match="^by: "):
        TablePartitions(leads, "leads", by="")


def test_a_worker_works_through_all_of_them(leads: Onceward) -> None:
    """Each partition has a cursor, and each row is handled once, in order."""
    for number in range(30):
        add(leads, str(number), niche=number % 5)
    app, seen = App(leads), []

    @app.consumer("niche_{id}", source=TablePartitions(app, "leads", by="niche_id"))
    def handle(message: Message) -> None:
        seen.append((message.partition, int(message.data["name"])))

    assert Worker(app).run(once=True).messages == 30
    add(leads, "30", niche=3)
    assert Worker(app).run(once=True).messages == 1
    for niche in range(5):
        assert [n for key, n in seen if key == str(niche)] == [
            n for n in range(31) if (3 if n == 30 else n % 5) == niche
        ]
