"""Dispatching: a dispatcher that freezes with words on their way, and the next one of its store.

Replies go to a board outside of every store. A board that takes keys must show each reply once; one
that does not shows it at most once, and what may be missing is marked.
"""

from __future__ import annotations

import time
from functools import partial

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.dispatch import dispatcher as dispatching
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import Group, NewMessage
from onceward.dispatch.operator_actions import Operators
from onceward.retries.retry_schedule import FixedDelays
from tests.proof.zombies.cells import LEASE_SECONDS, Cell, Place, Seen
from tests.proof.zombies.frozen import Child, Talk
from tests.proof.zombies.wait_until import until
from tests.support.dispatch_oracle import fates
from tests.support.dispatch_store import BARE
from tests.support.file_channel import FileChannel

BEFORE, AFTER = ("one", "two"), ("three",)


def started(place: Place, ow: Onceward, poll_seconds: float) -> Dispatcher:
    """Start a dispatcher whose lease is short."""
    vars(dispatching)["LEASE_SECONDS"] = LEASE_SECONDS
    channels = {
        "keyed": FileChannel(place.directory, takes_keys=True),
        "blind": FileChannel(place.directory, takes_keys=False),
    }
    made = Dispatcher(
        ow,
        home=place.directory / "home",
        channels=channels,
        schedule=FixedDelays(seconds=(0.05, 0.05)),
        poll_seconds=poll_seconds,
    )
    made.start()
    return made


def is_idle(ow: Onceward, group: str) -> bool:
    """Say whether nothing of a group waits, is at work or is on its way."""
    found = Operators(ow.store).status_of(group)
    return found.in_flight is None and found.pending == 0 and found.unsent == 0


def sayings_of(ow: Onceward, group: str) -> list[tuple[str, str]]:
    """Return what was said in a group, and how far each came."""
    sql = "select body, state from dispatch_outbox where group_name = ? order by id"
    return [(bytes(body).decode(), state) for body, state in ow.store.select(sql, [group])]


def dispatch(place: Place, talk: Talk) -> None:
    """Be the one that freezes; woken, it must notice that it was replaced, and wait its turn."""
    with open_handle(place.url) as ow:
        # Seldom, so that no other thread is inside a transaction when it freezes.
        made = started(place, ow, poll_seconds=0.5)
        talk.wait()
        until(lambda: not made.is_held, "it still believes to be the dispatcher")
        talk.tell("lost")
        until(lambda: made.is_held, "it does not begin again")
        talk.tell("held")
        talk.wait()
        made.stop()


def dispatch_instead(place: Place, name: str, talk: Talk) -> None:
    """Be the next one, and deal with everything."""
    with open_handle(place.url) as ow:
        made = started(place, ow, poll_seconds=0.02)
        until(lambda: made.is_held, "no dispatcher could take over")
        talk.tell("taken over")
        until(lambda: is_idle(ow, name), "it does not end")
        talk.tell("idle")
        talk.wait()
        made.stop()


def tell(ow: Onceward, group: str, *texts: str) -> None:
    """Let a person write, and be answered by an agent that then waits for a file."""
    for text in texts:
        message = NewMessage(group=group, id=text, sender="ann", text=f"!say {text}; wait go")
        Inbox(ow.store).receive(message)


def freeze(place: Place, *, name: str, channel: str, spec: str, goes_on: bool) -> Seen:
    """Run one cell; an agent that does not go on is still at work when its dispatcher freezes."""
    go = place.directory / "home" / "groups" / name / "go"
    go.parent.mkdir(parents=True)
    with open_handle(place.url) as ow:
        Groups(ow.store).add(Group(name=name, channel=channel, command=BARE))
        tell(ow, name, *BEFORE)
    if goes_on:
        go.touch()
    zombie = Child(partial(dispatch, place), spec)
    zombie.until_frozen()
    go.touch()
    frozen_at = time.monotonic()
    heir = Child(partial(dispatch_instead, place, name))
    seen = Seen(takeover_seconds=heir.hear("taken over")["at"] - frozen_at)
    seen.reached.append("taken over while frozen")
    heir.hear("idle")
    zombie.wake()
    zombie.go()
    zombie.hear("lost")
    seen.refused.append("LeaseLost")
    seen.reached.append("refused after waking")
    heir.go()
    heir.heard()
    zombie.hear("held")
    with open_handle(place.url) as ow:
        tell(ow, name, *AFTER)
        # A message that no dispatcher has seen yet does not make a group busy.
        until(lambda: (AFTER[-1], "sent") in sayings_of(ow, name), "no message is answered")
        until(lambda: is_idle(ow, name), "it does not end")
    zombie.go()
    zombie.heard()
    judge(place, name, channel, seen)
    return seen


def judge(place: Place, name: str, channel: str, seen: Seen) -> None:
    """Count what people see, and ask the store what became of every message."""
    said = [*BEFORE, *AFTER]
    with open_handle(place.url) as ow:
        found = fates(ow)
        sayings = sayings_of(ow, name)
    mine = {id_: fate for (group, id_), fate in found.messages.items() if group == name}
    ambiguous = [text for text, state in sayings if state == "maybe sent"]
    if channel == "chat":
        shown = [text for text, state in sayings if state == "sent"]
    else:
        shown = FileChannel(place.directory, takes_keys=True).shown(name)
    seen.work = len(set(shown))
    seen.lost = len(set(said) - set(shown) - set(ambiguous)) + len(set(said) - set(mine))
    seen.doubled = len(shown) - len(set(shown))
    assert set(mine.values()) <= {"done", "kept"}, mine
    assert (seen.lost, seen.doubled) == (0, 0), (shown, sayings)
    assert channel == "blind" or not ambiguous, sayings
    if channel != "blind":
        assert shown == said, shown


def cell(
    name: str, point: str, channel: str, *, goes_on: bool = False, is_quick: bool = False
) -> Cell:
    """Return a cell of a dispatcher."""
    run = partial(freeze, name=name, channel=channel, spec=f"{point}:1:stop", goes_on=goes_on)
    return Cell(
        name=name,
        point=point,
        run=run,
        claims=("F1", "X1", "X3"),
        quick_on=("sqlite",) if is_quick else (),
    )


CELLS = [
    cell("chat-begun", "dispatch.begin.after_commit", "chat"),
    cell("chat-handed", "dispatch.agent.after_start", "keyed"),
    cell("chat-said", "dispatch.reply.after_commit", "keyed"),
    cell("chat-marked", "dispatch.send.after_mark", "keyed", is_quick=True),
    cell("chat-marked-blind", "dispatch.send.after_mark", "blind"),
    cell("chat-sent", "dispatch.send.after_send", "keyed"),
    cell("chat-sent-blind", "dispatch.send.after_send", "blind"),
    cell("chat-done", "dispatch.done.after_commit", "chat", goes_on=True),
]
