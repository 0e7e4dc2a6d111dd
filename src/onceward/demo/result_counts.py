"""Result counts: count a demo's effects, losses and duplicates from its store and files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final

from onceward.client import Onceward
from onceward.cursors.lease_history import rejected_writes_of
from onceward.demo import chat_demo, feedback_demo, lead_workers, memory_demo, run_demo
from onceward.demo.attempt_log import Attempts, everything
from onceward.demo.demo_home import DemoWorld
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.operator_actions import Operators
from onceward.journal import Journal
from onceward.lab.models import is_feedback
from onceward.memory import Graph

#: Above the number of rejected writes in one demo.
_MANY: Final = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """The counts of one part of the demo."""

    part: str
    #: Leads sold, steps recorded, judgements processed, facts recorded, messages answered.
    done: int
    #: Processes that were killed.
    killed: int
    #: Attempts beyond the first of each.
    retried: int
    #: Leases that were taken over; runs that were resumed.
    taken_over: int = 0
    #: Stale writes of workers that had been replaced.
    refused: int = 0
    #: Inputs without an effect.
    lost: int
    #: Duplicate effects, beyond the first of each.
    doubled: int

    @property
    def is_kept(self) -> bool:
        """Return whether nothing was lost or duplicated."""
        return self.lost == self.doubled == 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Effects:
    """Expected and actual effects."""

    wanted: Counter[str]
    found: Counter[str]

    @property
    def lost(self) -> int:
        """Return how many expected effects are missing."""
        return sum(self.found[each] == 0 for each in self.wanted)

    @property
    def doubled(self) -> int:
        """Return how many effects are duplicates, or were not expected."""
        return sum(max(count - (key in self.wanted), 0) for key, count in self.found.items())


def tally(world: DemoWorld, ow: Onceward) -> list[Row]:
    """Count every part."""
    kills = Counter(each["part"] for each in everything(Journal(world.kills)))
    return [
        _leads(world, ow, kills[lead_workers.PART]),
        _run(world, kills[run_demo.PART]),
        _feedback(world, ow, kills[feedback_demo.PART]),
        _memory(world, ow, kills[memory_demo.PART]),
        _chat(ow, kills[chat_demo.PART]),
    ]


def total(rows: Iterable[Row]) -> Row:
    """Return the sums over all parts."""
    names = [each.name for each in fields(Row) if each.name != "part"]
    sums = dict.fromkeys(names, 0)
    for row in rows:
        for name in names:
            sums[name] += getattr(row, name)
    return Row(part="all", **sums)


# --- leads ---------------------------------------------------------------------------------------


def sold(ow: Onceward) -> Effects:
    """Compare the leads that arrived with the charges; leads without a contact are dead letters."""
    wanted = _column(ow, "select id from demo_leads where contact <> ''")
    return Effects(wanted=wanted, found=_column(ow, "select lead_id from demo_charges"))


def _leads(world: DemoWorld, ow: Onceward, killed: int) -> Row:
    effects = sold(ow)
    cursors = ow.cursors.list(lead_workers.CURSORS)
    logs = [path.read_bytes() for path in world.logs.glob("*-worker-*.log")]
    return Row(
        part=lead_workers.PART,
        done=len(effects.found),
        killed=killed,
        retried=sum(text.count(b'"message_failed"') for text in logs),
        taken_over=sum(each.steal_count for each in cursors),
        refused=sum(len(rejected_writes_of(ow.store, each.name, limit=_MANY)) for each in cursors),
        lost=effects.lost + _missing_dead_letters(ow),
        doubled=effects.doubled + _repeats(ow, "select lead_id from demo_assignments"),
    )


def _missing_dead_letters(ow: Onceward) -> int:
    """Return how many leads without a contact are missing among the dead letters."""
    ((without_contact,),) = ow.store.select("select count(*) from demo_leads where contact = ''")
    return max(int(without_contact) - sum(ow.dead.count().values()), 0)


# --- the other parts -----------------------------------------------------------------------------


def _run(world: DemoWorld, killed: int) -> Row:
    steps = run_demo.records(world.workspace)
    kinds = Counter(each["kind"] for each in steps)
    commands = [each["command"] for each in steps if each["kind"] == "command"]
    asked = Counter(each["idempotency_key"] for each in commands)
    noted = [each for agent in run_demo.AGENTS for each in run_demo.noted(world.workspace, agent)]
    started = Counter(key for word, key in noted if word == "started")
    completed = Counter(key for word, key in noted if word == "completed")
    effects = Effects(wanted=asked, found=completed)
    return Row(
        part=run_demo.PART,
        done=kinds["receipt"],
        killed=killed,
        retried=started.total() - len(started),
        taken_over=kinds["run.resumed"],
        lost=effects.lost + (kinds["run.started"] - kinds["run.completed"]),
        doubled=effects.doubled,
    )


def _feedback(world: DemoWorld, ow: Onceward, killed: int) -> Row:
    entries = everything(Journal(world.feedback, valid=is_feedback))
    tried = Attempts(world).of(feedback_demo.PART)
    sent = Effects(wanted=tried, found=Counter(each["extra"]["requestId"] for each in entries))
    heard = Effects(
        wanted=Counter(each["id"] for each in entries),
        found=_column(ow, "select entry from demo_heard"),
    )
    return Row(
        part=feedback_demo.PART,
        done=len(heard.found),
        killed=killed,
        retried=tried.total() - len(tried),
        lost=sent.lost + heard.lost,
        doubled=sent.doubled + heard.doubled,
    )


def _memory(world: DemoWorld, ow: Onceward, killed: int) -> Row:
    tried = Attempts(world).of(memory_demo.PART)
    facts = [memory_demo.fact(number) for number in range(memory_demo.FACTS)]
    found = Graph(ow.store).open(sorted({buyer for buyer, _, _ in facts}))
    texts = [each.content for entity in found.entities for each in entity.observations]
    effects = Effects(wanted=Counter(text for *_, text in facts), found=Counter(texts))
    links = Counter((each.from_name, each.to_name) for each in found.relations)
    return Row(
        part=memory_demo.PART,
        done=len(effects.found),
        killed=killed,
        retried=tried.total() - len(tried),
        lost=effects.lost,
        doubled=effects.doubled + links.total() - len(links),
    )


def _chat(ow: Onceward, killed: int) -> Row:
    asked, answered = chat_demo.messages_and_replies(Inbox(ow.store))
    effects = Effects(wanted=Counter(asked), found=Counter(answered))
    return Row(
        part=chat_demo.PART,
        done=len(effects.found),
        killed=killed,
        retried=chat_demo.rolled_back(Operators(ow.store)),
        lost=effects.lost,
        doubled=effects.doubled + len(asked) - len(set(asked)),
    )


def _column(ow: Onceward, query: str) -> Counter[str]:
    return Counter(str(value) for (value,) in ow.store.select(query))


def _repeats(ow: Onceward, query: str) -> int:
    found = _column(ow, query)
    return found.total() - len(found)
