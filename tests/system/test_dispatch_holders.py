"""Which dispatcher holds a store: the living are never taken for dead, wherever they live."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from onceward.cursors.lease import Lease
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.models import LEASE
from onceward.system import ProcessIdentity
from tests.support import namespaces
from tests.support.dispatch_store import World, chat, lines
from tests.support.waiting import until

__all__ = ["chat"]

#: After so many looks at a lease, a dispatcher that would take it has taken it.
LOOKS = 3
#: A dead holder's lease that ends within no test.
LONG_SECONDS = 3600.0
Elsewhere = Callable[[], tuple[str, ...]]


def state(world: World) -> tuple[str | None, int]:
    """Return the holder of the store, and how often it was granted."""
    found = world.ow.cursors.show(LEASE)
    return found.lease_owner, found.epoch


@pytest.mark.parametrize("place", [namespaces.pid_namespace, namespaces.hidepid])
@pytest.mark.usefixtures("elsewhere")
def test_h69_a_live_dispatcher_is_not_taken_for_dead_from_elsewhere(
    chat: World, place: Elsewhere
) -> None:
    """Its neighbour has another pid namespace, or sees no process of other users."""
    left_alone(chat, place)


@pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
@pytest.mark.usefixtures("elsewhere")
def test_h69_a_live_dispatcher_is_not_taken_for_dead_on_another_boot(chat: World) -> None:
    """Two machines may have one name. A SQLite file has one machine: its reboot ends all leases."""
    left_alone(chat, namespaces.another_boot)


def left_alone(chat: World, place: Elsewhere) -> None:
    own = chat.group()
    chat.life()
    chat.tell("!wait go; say hello", "1")
    until((own / "at-go").exists)
    before = state(chat)
    looks = chat.place / "neighbour"
    chat.neighbour(looks, place())
    until(lambda: len(lines(looks)) >= LOOKS or state(chat) != before)
    (own / "go").touch()
    chat.answered("hello")
    assert state(chat) == before
    assert set(lines(looks)) == {"held"}
    assert lines(own / "begun") == ["1"]


@pytest.mark.usefixtures("elsewhere")
def test_h69_a_dispatcher_elsewhere_is_left_its_lease_and_succeeded_at_its_end(chat: World) -> None:
    """The neighbour cannot know that it was killed, and takes over when the lease expires."""
    own = chat.group()
    first = chat.life(namespaces.pid_namespace())
    chat.tell("!once wait go; say hello", "1")
    until((own / "at-go").exists)
    before = state(chat)
    first.kill()
    first.wait()
    looks = Looks(chat.made())
    chat.start_made(looks.dispatcher)
    until(lambda: looks.count >= LOOKS or state(chat) != before)
    assert state(chat) == before
    # What a lease's end is to the store, for tests that do not wait for it.
    lease = chat.ow.cursors.acquire(LEASE, before[0])
    assert lease
    lease.release()
    chat.answered("hello")


class Looks:
    """A dispatcher that counts how often it found the store held by another."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.count = 0
        self._acquired = dispatcher._acquired
        dispatcher._acquired = self._look  # type: ignore[method-assign]

    def _look(self) -> Lease | None:
        lease = self._acquired()
        self.count += lease is None
        return lease


def dead_process() -> ProcessIdentity:
    """Return a process of this namespace that has ended and was reaped."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", ""]) as process:
        return ProcessIdentity.of_child(process.pid)


@pytest.mark.parametrize(
    "change",
    [
        {"boot_id": "5f2b11d2-5d0e-4c53-9c6a-1b2d7c3f9a10"},
        {"pid_namespace": 1},
        {"host": "another-host"},
    ],
    ids=["boot", "pid namespace", "host"],
)
def test_h69_a_holder_that_cannot_be_seen_from_here_is_waited_for(
    chat: World, change: dict[str, object]
) -> None:
    """No process here has its pid, which means nothing: pids count elsewhere."""
    waited_for(chat, replace(dead_process(), **change).holder("a1b2c3d4"))  # type: ignore[arg-type]


def test_h69_a_holder_that_does_not_say_where_it_runs_is_waited_for(chat: World) -> None:
    """A name of the form `host/pid/random` does not tell which namespace the pid is of."""
    process = dead_process()
    waited_for(chat, f"{process.host}/{process.pid}/a1b2c3d4")


def waited_for(chat: World, holder: str) -> None:
    chat.group()
    lease = chat.ow.cursors.acquire(LEASE, holder, LONG_SECONDS)
    assert lease
    looks = Looks(chat.made())
    chat.start_made(looks.dispatcher)
    chat.tell("hello")
    until(lambda: looks.count >= LOOKS or looks.dispatcher.is_held)
    assert state(chat) == (holder, lease.epoch)
    lease.release()
    chat.answered("hello")


@pytest.mark.parametrize("is_reused", [False, True], ids=["gone", "pid reused"])
def test_h69_a_dead_holder_of_this_namespace_is_succeeded_at_once(
    chat: World, is_reused: bool
) -> None:
    """Its process is gone, or another one has its pid; its lease would hold for an hour."""
    chat.group()
    dead = replace(ProcessIdentity.own(), started_ticks=1) if is_reused else dead_process()
    assert chat.ow.cursors.acquire(LEASE, dead.holder("a1b2c3d4"), LONG_SECONDS)
    chat.start()
    chat.tell("hello")
    chat.answered("hello")
    holder = chat.dispatcher.holder
    assert holder
    assert ProcessIdentity.from_holder(holder) == ProcessIdentity.own()


def test_a_stopped_dispatcher_is_alive(chat: World) -> None:
    """A process that was stopped may go on at any moment: its lease ends before it is succeeded."""
    chat.group()
    process = chat.life()
    os.kill(process.pid, signal.SIGSTOP)
    found = ProcessIdentity.from_holder(state(chat)[0] or "")
    assert found
    assert found.pid == process.pid
    assert not found.is_dead()
    process.kill()
    process.wait()
    assert found.is_dead()
