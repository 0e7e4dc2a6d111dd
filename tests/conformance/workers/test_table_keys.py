"""Columns that make partitions: one value, one spelling, or rows would be handled twice."""

import pytest

from onceward.client import Onceward
from onceward.errors import SourceRefused
from onceward.workers.sources import TablePartitions

#: By engine: how a column is declared, two values that are the same to it, and why it is refused.
REFUSED = {
    "sqlite": [
        ("text collate nocase", "'Roofs'", "'roofs'", "NOCASE"),
        ("text collate rtrim", "'roofs'", "'roofs '", "RTRIM"),
        ("real", "1", "1.0", "declared REAL"),
        ("numeric", "1", "'1.0'", "(?i)declared numeric"),
        ("", "5", "'5'", "without a type"),
        ("blob", "x'35'", "'5'", "declared BLOB"),
    ],
    "postgres": [
        ("numeric", "1.0", "1.00", "numeric"),
        ("float8", "0", "'-0'", "float8"),
        ("jsonb", "'1.0'", "'1.00'", "jsonb"),
        ("interval", "'1 day'", "'24 hours'", "interval"),
        ('text collate "same"', "'Roofs'", "'roofs'", "'same'"),
        ('"word"', "'Roofs'", "'roofs'", "'same'"),
    ],
}
TAKEN = {
    "sqlite": [
        ("text", ["'Roofs'", "'roofs'", "'roofs '"]),
        ("varchar(9)", ["'1'", "'1.0'"]),
        ("bigint", ["1", "2"]),
        ("boolean", ["0", "1"]),
    ],
    "postgres": [
        ("text", ["'Roofs'", "'roofs'", "'roofs '"]),
        ("varchar(9)", ["'1'", "'1.0'"]),
        ("char(5)", ["'a'", "'b '"]),
        ("smallint", ["1", "2"]),
        ("bool", ["true", "false"]),
        ("uuid", ["'7f2c1d3e-0000-4000-8000-000000000001'", "gen_random_uuid()"]),
        ('"mood"', ["'good'", "'bad'"]),
    ],
}
CASES = 7


def make(ow: Onceward, kind: str, *values: str) -> TablePartitions:
    with ow.transaction() as tx:
        if ow.store.engine == "sqlite":
            tx.execute(f"create table t (id integer primary key autoincrement, k {kind})")
            tx.execute("create index t_k on t (k)")
        else:
            # Only ICU has such collations, and not every build has ICU: this one only says so.
            tx.execute("create collation same (provider = libc, locale = 'C')")
            tx.execute(
                "update pg_collation set collisdeterministic = false where collname = 'same'"
            )
            tx.execute("create domain word as text collate same")
            tx.execute("create type mood as enum ('good', 'bad')")
            tx.execute(
                f"create table t (id bigint generated always as identity primary key, k {kind}, "
                "onceward_xid xid8 not null default pg_current_xact_id())"
            )
            tx.execute("create index on t (k, onceward_xid, id)")
            tx.execute("create index on t (onceward_xid, id)")
    for value in values:
        with ow.transaction() as tx:
            tx.execute(f"insert into t (k) values ({value})")
    return TablePartitions(ow, "t", by="k", columns=["id"])


@pytest.mark.parametrize("number", range(CASES))
def test_a_column_in_which_one_value_has_two_spellings_is_refused(
    ow: Onceward, number: int
) -> None:
    """Each spelling would be a partition with the rows of both, before anything is read."""
    for kind, one, other, why in REFUSED[ow.store.engine][number : number + 1]:
        partitions = make(ow, kind, one, other)
        with pytest.raises(SourceRefused, match=why) as caught:
            partitions.check()
        assert "byte by byte" in caught.value.fix
        with pytest.raises(SourceRefused):
            partitions.active(None)


@pytest.mark.parametrize("number", range(CASES))
@pytest.mark.parametrize("is_marked", [False, True])
def test_any_other_column_has_each_row_in_one_partition(
    ow: Onceward, number: int, is_marked: bool
) -> None:
    """However alike its values look."""
    for kind, values in TAKEN[ow.store.engine][number : number + 1]:
        partitions = make(ow, kind)
        marker = partitions.active(None).marker if is_marked else None
        for value in values:
            with ow.transaction() as tx:
                tx.execute(f"insert into t (k) values ({value})")
        keys = partitions.active(marker).keys
        assert len(keys) == len(set(keys)) == len(values)
        found = [item.position for key in keys for item in partitions.source(key).read(None, 10)]
        assert len(found) == len(set(found)) == len(values)
