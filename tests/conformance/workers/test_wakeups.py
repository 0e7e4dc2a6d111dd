"""Wake-ups: heard within a process and between processes; they keep no process from ending."""

import gc
import os
import subprocess
import sys
import threading
import weakref
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import InvalidArgument
from onceward.stores import open_store
from onceward.workers.sources import TableSource
from onceward.workers.wakeups import Wakeups
from tests.support.user_tables import add, make_leads
from tests.support.wakeup_listeners import Ears

#: Sends, or on SQLite only commits, in another process.
TELL = """
import sys, onceward
from onceward.workers.wakeups import Wakeups
ow = onceward.open(sys.argv[1])
with ow.transaction() as tx:
    tx.execute("insert into leads (name) values ('from elsewhere')")
wakes = Wakeups(ow.store)
wakes.publish("leads")
wakes.close()
"""
#: Listens and sends, and closes nothing.
CARELESS = """
import sys, threading, onceward
from onceward.workers.wakeups import Wakeups
wakes = Wakeups(onceward.open(sys.argv[1]).store)
heard = threading.Event()
block = wakes.subscribed(lambda topic: heard.set())
block.__enter__()
assert heard.wait(60)
wakes.publish("leads")
print("end")
"""


@pytest.fixture
def leads(ow: Onceward) -> Onceward:
    make_leads(ow)
    return ow


def test_a_hint_is_heard_at_once_in_the_same_process(ow: Onceward) -> None:
    """All listeners hear it, before `send` returns; afterwards none does."""
    wakes = Wakeups(ow.store)
    first, second = Ears(), Ears()
    with wakes.subscribed(first), wakes.subscribed(second):
        wakes.publish("leads")
        assert first.heard.count("leads") == second.heard.count("leads") == 1
    wakes.publish("leads")
    assert first.heard.count("leads") == 1
    wakes.close()


def test_a_hint_of_another_process_is_heard(leads: Onceward, ow_url: str) -> None:
    """By name on PostgreSQL; on SQLite the commit itself is noticed."""
    ears = Ears()
    wakes = Wakeups(leads.store)
    with wakes.subscribed(ears):
        assert ears.wait_for(None)
        before = len(ears.heard)
        subprocess.run([sys.executable, "-c", TELL, ow_url], check=True)
        topic = None if leads.store.engine == "sqlite" else "leads"
        assert ears.wait_for(topic, before + 1 if topic is None else 1)
    wakes.close()


def test_a_listener_that_fails_does_not_affect_others(
    ow: Onceward, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the sender nor the others notice; the log does."""
    wakes = Wakeups(ow.store)
    ears = Ears()

    def broken(_topic: str | None) -> None:
        raise ZeroDivisionError

    with wakes.subscribed(broken), wakes.subscribed(ears):
        wakes.publish("leads")
    assert "leads" in ears.heard
    assert "a wakeup listener failed" in caplog.text
    wakes.close()


@pytest.mark.parametrize("topic", ["", "x" * 201, "a\0b", 7])
def test_a_topic_is_a_name(ow: Onceward, topic: str) -> None:
    """What could not be sent is refused at once."""
    with pytest.raises(InvalidArgument):
        Wakeups(ow.store).publish(topic)


def test_everybody_in_a_process_shares_the_hints_of_a_store(ow: Onceward) -> None:
    """One connection and one thread serve them all, and are gone when none uses them."""
    known = id(Wakeups.of(ow.store))
    assert id(Wakeups.of(ow.store)) == known
    ears, before = Ears(), set(threading.enumerate())
    with Wakeups.of(ow.store).subscribed(ears), Wakeups.of(ow.store).subscribed(ears):
        assert ears.wait_for(None)
        names = [each.name for each in set(threading.enumerate()) - before]
        assert names.count("onceward-wakeups") == 1


def test_hints_do_not_keep_a_store(ow_url: str) -> None:
    """They are shared as long as their store is in use, and gone with it."""
    store = open_store(ow_url)
    seen = weakref.ref(store)
    Wakeups.of(store).publish("leads")
    Wakeups.of(store).close()
    store.close()
    del store
    gc.collect()
    assert seen() is None


def test_threads_end_without_listeners_and_come_back(ow: Onceward) -> None:
    """A second block hears as well as the first."""
    wakes = Wakeups(ow.store)
    for _ in range(2):
        ears = Ears()
        with wakes.subscribed(ears):
            assert ears.wait_for(None)
            thread = wakes._thread
            assert thread is not None
        thread.join(60)
        assert not thread.is_alive()
    wakes.close()


def test_a_forked_child_has_hints_of_its_own(leads: Onceward, ow_url: str) -> None:
    """It hears and sends on its own; its parent goes on as if nothing had happened."""
    wakes, ears = Wakeups(leads.store), Ears()
    with wakes.subscribed(ears):
        assert ears.wait_for(None)
        wakes.publish("before")
        assert ears.wait_for("before")
        child = os.fork()
        if child == 0:
            _in_the_child(wakes, leads)
        assert os.waitpid(child, 0)[1] == 0
        topic = None
        if leads.store.engine == "postgres":
            assert ears.wait_for("from the child")
            topic = "leads"
        count = ears.heard.count(topic)
        subprocess.run([sys.executable, "-c", TELL, ow_url], check=True)
        assert ears.wait_for(topic, count + 1)
    wakes.close()


def _in_the_child(wakes: Wakeups, ow: Onceward) -> None:
    try:
        own = Ears()
        assert not wakes._listeners
        with wakes.subscribed(own):
            assert own.wait_for(None)
            wakes.publish("from the child")
            assert own.wait_for("from the child")
            add(ow, "also from the child")
        wakes.close()
        os._exit(0)
    finally:
        os._exit(1)


def test_a_process_is_not_kept_from_ending(leads: Onceward, ow_url: str) -> None:
    """A process that closes nothing ends when it is done, and says nothing about it."""
    assert leads.store.engine
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", CARELESS, ow_url],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("end\n", "", 0)


def test_a_table_source_is_woken_by_its_rows(leads: Onceward, ow_url: str) -> None:
    """From another process, within moments; not by what happens to other tables."""
    with leads.transaction() as tx:
        tx.execute("create table other (id integer)")
    source, ears, others = TableSource(leads, "leads"), Ears(), Ears()
    with source.watching(ears):
        if leads.store.engine == "postgres":
            assert ears.wait_for(None)  # The connection is there.
        count = len(ears.heard)
        with Wakeups.of(leads.store).subscribed(others):
            # The thread that listens may have said its first word before this one joined.
            while leads.store.engine == "sqlite" and not others.wait_for(None, seconds=0.5):
                with leads.transaction() as tx:
                    tx.execute("insert into other values (0)")
            before = len(others.heard)
            with leads.transaction() as tx:
                tx.execute("insert into other values (1)")
            Wakeups.of(leads.store).publish("other")
            # A later listener hears later: what is known here was known there.
            assert others.wait_for("other")
            assert leads.store.engine == "postgres" or others.wait_for(None, before + 1)
        assert len(ears.heard) == count
        subprocess.run([sys.executable, "-c", TELL, ow_url], check=True)
        assert ears.wait_for(None, count + 1)
        Wakeups.of(leads.store).publish("leads")
        assert ears.wait_for(None, count + 2)
    Wakeups.of(leads.store).close()


def test_an_ear_that_fails_hears_again(ow: Onceward, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it was; polls alone would be slow for ever."""
    monkeypatch.setattr("onceward.workers.wakeups.RETRY_SECONDS", 0.01)
    wakes, ears = Wakeups(ow.store), Ears()
    asked: list[None] = []
    hear = wakes._subscriber.listen

    def fails(*args: Any) -> None:
        asked.append(None)
        if len(asked) <= 2:
            raise OSError
        hear(*args)

    monkeypatch.setattr(wakes._subscriber, "listen", fails)
    with wakes.subscribed(ears):
        assert ears.wait_for(None)
    assert len(asked) == 3
    wakes.close()
