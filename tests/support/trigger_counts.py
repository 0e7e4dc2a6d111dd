"""Trigger counts: compare the counts that triggers maintain with the rows that they count."""

from onceward.client import Onceward

#: Every row that counts, by kind and name.
COUNTED = """
select 'parked', cursor_name, count(*) from onceward_parked group by cursor_name
union all
select 'dead', cursor_name, count(*) from onceward_dead where state = 'dead' group by cursor_name
"""


def assert_counts(ow: Onceward) -> None:
    with ow.transaction() as tx:
        kept = tx.execute("select kind, name, number from onceward_counts")
        assert sorted(kept) == sorted(tx.execute(COUNTED))
