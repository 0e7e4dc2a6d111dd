"""PostgreSQL is away for a while."""

from __future__ import annotations

import time
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from psycopg_pool.base import AttemptWithBackoff

from onceward.errors import StoreUnavailable
from onceward.stores.postgres.store import PostgresStore
from tests.proof.postgres.conftest import NewDatabase
from tests.proof.proxy import Proxy

CALL_SECONDS = 0.5
CALLS_IN_VAIN = 3
#: How long the pool waits after it failed to connect, if calls do not make it begin again. It would
#: wait twice as long after each failure; this is where a long outage ends up.
BACKOFF_SECONDS = 3600.0
#: Calls go on failing for so long at most, on the slowest machine.
GUARD_SECONDS = 60.0


def test_a_long_outage_is_over_when_it_is_over(
    new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call soon after the server is back gets an answer, however long it was away."""
    monkeypatch.setattr(AttemptWithBackoff, "INITIAL_DELAY", BACKOFF_SECONDS)
    with new_database() as url:
        port = urlsplit(url).port
        assert port is not None
        with Proxy("127.0.0.1", port) as proxy:
            address = url.replace(f":{port}/", f":{proxy.port}/")
            with closing(PostgresStore(address, connect_seconds=CALL_SECONDS)) as store:
                assert store.select("select 1") == [(1,)]
                proxy.refuse()
                proxy.reset()
                for _ in range(CALLS_IN_VAIN):
                    with pytest.raises(StoreUnavailable):
                        store.select("select 1")
                proxy.pass_everything()
                deadline = time.monotonic() + GUARD_SECONDS
                while time.monotonic() < deadline:
                    try:
                        assert store.select("select 1") == [(1,)]
                    except StoreUnavailable:
                        continue
                    return
        pytest.fail("no answer, although the server is back")
