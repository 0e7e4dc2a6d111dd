"""The store of a demo, on both engines: an empty database, and no other."""

from contextlib import closing
from pathlib import Path

import pytest

from onceward.demo.demo_home import check_empty
from onceward.demo.demo_server import endless_demo_running
from onceward.errors import Conflict
from onceward.stores import open_store
from onceward.testing.postgres import PostgresServer


def test_a_demo_takes_no_store_that_was_used_before(
    ow_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Our tables exist, though nothing was written into them: no demo begins."""
    if ow_url.startswith("sqlite"):
        request.getfixturevalue("ow")
    home = tmp_path / "home"
    with pytest.raises(Conflict, match="in use") as refused, endless_demo_running(home, ow_url):
        pass
    assert "empty database" in refused.value.fix
    assert not home.exists()


def test_a_demo_takes_an_empty_database(tmp_path: Path, postgres_server: PostgresServer) -> None:
    """Looking at it does not fill it."""
    for url in (f"sqlite:///{tmp_path}/new.db", postgres_server.new_database("empty")):
        for _ in range(2):
            with closing(open_store(url)) as store:
                check_empty(store)
