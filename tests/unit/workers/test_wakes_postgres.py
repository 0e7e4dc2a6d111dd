"""Wake-ups on PostgreSQL: few, cheap, outside of transactions, and back after the server was."""

import time

import psycopg
import pytest

from onceward.client import Onceward
from onceward.stores import open_store
from onceward.system import ManualClock
from onceward.testing.postgres import PostgresServer
from onceward.workers import postgres_notify
from onceward.workers.wakeups import Wakeups
from tests.support.postgres_servers import own_server
from tests.support.waiting import until
from tests.support.wakeup_listeners import Ears

__all__ = ["own_server"]


def backends(url: str) -> int:
    """Return how many connections there are beside the one that asks."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity where datname = current_database() "
            "and pid <> pg_backend_pid() and backend_type = 'client backend'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_many_hints_are_few_notifications(pg: Onceward, pg_url: str) -> None:
    """However many are sent, twenty a second arrive, the last one among them."""
    wakes, clock = Wakeups(pg.store), ManualClock()
    mouth = wakes._publisher
    assert isinstance(mouth, postgres_notify.NotifyPublisher)
    mouth._clock = clock
    with psycopg.connect(pg_url, autocommit=True) as listener:
        listener.execute(f"listen {postgres_notify.CHANNEL}")
        for _ in range(5):
            for _ in range(1_000):
                wakes.publish("leads")
            assert next(listener.notifies(timeout=60)).payload == "leads"
            wakes.publish("leads")
            clock.advance(seconds=1.5 * postgres_notify.SEND_SECONDS_MIN)
            assert next(listener.notifies(timeout=60)).payload == "leads"
            clock.advance(seconds=1.5 * postgres_notify.SEND_SECONDS_MIN)
        wakes.publish("end")
        assert next(listener.notifies(timeout=60)).payload == "end"
    wakes.close()


def test_a_hint_is_not_part_of_the_transaction_that_sends_it(pg: Onceward, pg_url: str) -> None:
    """It arrives while the transaction is open, and although it is rolled back."""
    wakes = Wakeups(pg.store)
    with psycopg.connect(pg_url, autocommit=True) as listener:
        listener.execute(f"listen {postgres_notify.CHANNEL}")
        with pytest.raises(ZeroDivisionError), pg.transaction() as tx:
            tx.execute("create table leads (id int)")
            wakes.publish("leads")
            assert [said.payload for said in listener.notifies(timeout=60, stop_after=1)]
            raise ZeroDivisionError
    wakes.close()


def test_a_process_does_not_hear_itself_twice(pg: Onceward) -> None:
    """A wakeup within the process is not repeated when it comes back from the server."""
    wakes, other, ears, passing = Wakeups(pg.store), Wakeups(pg.store), Ears(), Ears()
    with wakes.subscribed(ears), other.subscribed(passing):
        assert ears.wait_for(None)
        assert passing.wait_for(None)
        wakes.publish("own")
        assert passing.wait_for("own")  # It has come back from the server by now.
        other.publish("other")
        assert ears.wait_for("other")
    assert (ears.heard.count("own"), ears.heard.count("other")) == (1, 1)
    wakes.close()
    other.close()


def test_what_waits_has_a_limit(pg: Onceward, monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics beyond it are dropped; no publisher waits, and nothing grows."""
    monkeypatch.setattr(postgres_notify, "TOPICS_MAX", 10)
    wakes = Wakeups(pg.store)
    mouth = wakes._publisher
    assert isinstance(mouth, postgres_notify.NotifyPublisher)
    with mouth._changed:  # The thread that sends cannot take any.
        for number in range(100):
            wakes.publish(f"topic {number}")
        assert len(mouth._waiting) == 10
    wakes.close()


def test_connections_are_given_back(
    pg: Onceward, pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When there are no listeners, and when nothing was sent for a while."""
    monkeypatch.setattr(postgres_notify, "IDLE_SECONDS", 0.1)
    monkeypatch.setattr(postgres_notify, "WAIT_SECONDS", 0.05)
    before = backends(pg_url)
    wakes, ears = Wakeups(pg.store), Ears()
    mouth = wakes._publisher
    assert isinstance(mouth, postgres_notify.NotifyPublisher)
    with wakes.subscribed(ears):
        assert ears.wait_for(None)
        wakes.publish("leads")
        assert backends(pg_url) > before
        threads = [wakes._thread, mouth._thread]
    for thread in threads:
        assert thread is not None
        thread.join(60)
        assert not thread.is_alive()
    until(lambda: backends(pg_url) <= before)
    wakes.publish("leads")  # And it begins again.
    wakes.close()


def test_listening_survives_a_server_that_is_killed(own_server: PostgresServer) -> None:
    """After every return of the server everything may have changed, and what is sent is heard."""
    store = open_store(own_server.new_database("work"))
    other = open_store(own_server.database("work"))
    wakes, sender, ears = Wakeups(store), Wakeups(other), Ears()
    with wakes.subscribed(ears):
        assert ears.wait_for(None)
        for number in (1, 2, 3):
            sender.publish(f"before {number}")
            assert ears.wait_for(f"before {number}")
            own_server.kill()
            sender.publish(f"while away {number}")  # It does not wait for the server.
            own_server.start()
            assert ears.wait_for(None, number + 1)
            sender.publish(f"after {number}")
            assert ears.wait_for(f"after {number}")
        wakes.publish("own")
        assert ears.wait_for("own")
    for each in (wakes, sender):
        each.close()
    store.close()
    other.close()


def test_listening_begins_before_the_server_does(own_server: PostgresServer) -> None:
    """A worker that was started first hears as soon as there is something to hear."""
    store = open_store(own_server.new_database("work"))
    own_server.kill()
    wakes, ears = Wakeups(store), Ears()
    with wakes.subscribed(ears):
        time.sleep(0.3)
        assert ears.heard == []
        own_server.start()
        assert ears.wait_for(None)
    wakes.close()
    store.close()


def test_nothing_at_all_ends_the_hints(pg: Onceward, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error is one lost connection more, for publishers and subscribers."""
    wakes, other, ears = Wakeups(pg.store), Wakeups(pg.store), Ears()
    for owner, method in ((wakes._publisher, "_send"), (other._subscriber, "_receive")):
        _failing_once(monkeypatch, owner, method)
    with other.subscribed(ears):
        assert ears.wait_for(None)
        wakes.publish("leads")

        def is_heard() -> bool:
            wakes.publish("leads")
            return "leads" in ears.heard

        until(is_heard)
    wakes.close()
    other.close()


def _failing_once(monkeypatch: pytest.MonkeyPatch, owner: object, method: str) -> None:
    real = getattr(owner, method)
    called: list[None] = []

    def fails(*args: object) -> object:
        called.append(None)
        if len(called) == 1:
            raise RuntimeError
        return real(*args)

    monkeypatch.setattr(owner, method, fails)
