"""Checkpoints in a transaction whose connection is lent to the user's database layer."""

import pytest

from onceward.client import Onceward
from tests.conformance.test_lent_connections import add, numbers


@pytest.mark.parametrize("use", ["read", "write", "commit"])
def test_h47_a_lent_connection_and_a_checkpoint_are_one_commit(ow: Onceward, use: str) -> None:
    """The checkpoint is kept for the end, when the connection is not lent any more."""
    with ow.transaction() as tx:
        tx.execute("create table orders (number integer primary key)")
    lease = ow.cursors.acquire("c", "w")
    assert lease is not None
    with ow.transaction() as tx:
        connection = tx.connection
        if use == "read":
            connection.execute("select 1").fetchall()
        else:
            add(connection, 1)
        if use == "commit":
            connection.commit()
        lease.checkpoint("7", tx=tx)
    assert ow.cursors.show("c").position == lease.position == "7"
    assert numbers(ow) == ([] if use == "read" else [1])
