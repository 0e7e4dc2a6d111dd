"""PostgreSQL is away for a while."""

from __future__ import annotations

from contextlib import closing
from urllib.parse import urlsplit

import pytest

from onceward.errors import StoreUnavailable
from onceward.stores.postgres.store import PostgresStore
from tests.proof.postgres.conftest import NewDatabase
from tests.proof.proxy import Proxy

CALL_SECONDS = 0.5
#: So many calls in vain; a pool that waits twice as long each time would wait as long again.
CALLS_IN_VAIN = 8
#: So many more may be in vain on a slow machine.
CALLS_MORE = 3


def test_a_long_outage_is_over_when_it_is_over(new_database: NewDatabase) -> None:
    """Who asks again soon after the server is back gets an answer, however long it was away."""
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
                for _ in range(CALLS_MORE):
                    try:
                        assert store.select("select 1") == [(1,)]
                    except StoreUnavailable:
                        continue
                    return
        pytest.fail("no answer, although the server is back")
