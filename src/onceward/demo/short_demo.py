"""Short demo: run all five systems for a minute, kill processes, and count the results.

Decides which parts run and in which order. Each line is printed after its event was observed;
`result_counts` counts the results afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.demo import leads
from onceward.demo.chat_demo import ECHO, GROUP, ChatDemo
from onceward.demo.demo_home import DemoWorld, check_empty, prepare
from onceward.demo.demo_processes import DemoProcesses
from onceward.demo.feedback_demo import FeedbackDemo
from onceward.demo.interleaving import Act, Stage, StageEvent
from onceward.demo.lead_workers import LeadWorkers
from onceward.demo.memory_demo import MemoryDemo
from onceward.demo.result_counts import Row, sold, tally, total
from onceward.demo.run_demo import RunDemo, make_workspace
from onceward.stores import open_store
from onceward.system import Clock, Randomness

#: Default time during which workers are killed and frozen.
SECONDS: Final = 25.0
#: How many leads arrive each second; three workers can sell more.
LEADS_PER_SECOND: Final = 15
FEEDBACK_SECONDS: Final = 0.7
#: The share of the time during which people send judgements.
JUDGING_SHARE: Final = 0.7
BLOWS_MIN: Final = 2
#: How many more workers are frozen until a stale write is rejected.
FREEZES_MORE_MAX: Final = 5
KILL_SECONDS: Final = (1.0, 2.5)
#: Time to sell the last leads, on a busy machine.
DRAIN_SECONDS: Final = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoOptions:
    """The options of the short demo."""

    seconds: float = SECONDS


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoResult:
    """The results of the short demo."""

    #: The duration in seconds.
    seconds: float
    events: tuple[StageEvent, ...]
    rows: tuple[Row, ...]

    @property
    def total(self) -> Row:
        """Return all parts together."""
        return total(self.rows)


def run_short_demo(
    world: DemoWorld,
    tell: Callable[[StageEvent], None],
    options: DemoOptions | None = None,
    *,
    clock: Clock | None = None,
    randomness: Randomness | None = None,
) -> DemoResult:
    """Run the whole demo in an empty directory, print its events, and count the results.

    Call it in the main thread, because child processes end with their thread. No process is left
    afterwards.
    """
    events: list[StageEvent] = []

    def note(event: StageEvent) -> None:
        events.append(event)
        tell(event)

    stage = Stage(note, clock=clock, randomness=randomness)
    with closing(open_store(world.store_url)) as store:
        check_empty(store)
    prepare(world)
    with closing(open_handle(world.store_url)) as ow:
        leads.create(ow)
        processes = DemoProcesses(world, clock=clock)
        try:
            _ShortDemo(stage, processes, world, ow, options or DemoOptions()).run()
        finally:
            processes.kill_all()
        rows = tuple(tally(world, ow))
    return DemoResult(seconds=round(stage.passed, 1), events=tuple(events), rows=rows)


class _ShortDemo:
    """Runs all parts concurrently."""

    def __init__(
        self,
        stage: Stage,
        processes: DemoProcesses,
        world: DemoWorld,
        ow: Onceward,
        options: DemoOptions,
    ) -> None:
        self._stage, self._ow, self._options = stage, ow, options
        self._workers = LeadWorkers(stage, processes, ow)
        self._feedback = FeedbackDemo(stage, processes, world, ow)
        self._notes = MemoryDemo(stage, processes, world)
        self._talk = ChatDemo(stage, processes, world, ow)
        make_workspace(world.workspace)
        self._runs = RunDemo(stage, processes, world)
        self._is_under_fire = True

    def run(self) -> None:
        """Run until every part has ended."""
        self._talk.add(GROUP, ECHO)
        self._feedback.start()
        detail = "people judge the agents' outputs; each judgement is sent twice"
        self._stage.tell("feedback", detail)
        self._stage.run(
            self._selling(),
            self._interrupt_workers(),
            self._runs.one(),
            self._judging(),
            self._feedback.kill_reader(),
            self._notes.write_with_kills(),
            self._talk.converse(),
        )
        self._workers.stop()

    def _selling(self) -> Act:
        """Add leads while workers are killed and frozen, and wait until all are sold."""
        self._workers.start()
        self._stage.tell("leads", f"three workers sell leads in {len(leads.NICHES)} niches")
        added, stage = 0, self._stage
        while self._is_under_fire:
            due = int(stage.passed * LEADS_PER_SECOND) + LEADS_PER_SECOND - added
            self._workers.submit(due)
            added += due
            yield from stage.pause(0.2)
        stage.tell("leads", f"{added} leads arrived; the workers finish the rest")
        text = "every lead is sold"
        yield from stage.await_event("leads", text, lambda: sold(self._ow).lost == 0, DRAIN_SECONDS)
        if given_up := sum(self._ow.dead.count().values()):
            stage.tell("leads", f"leads without a contact, now dead letters: {given_up}")

    def _interrupt_workers(self) -> Act:
        """Kill and freeze workers for the given time, and until a stale write was rejected."""
        stage, workers, blows = self._stage, self._workers, 0
        while stage.passed < self._options.seconds or blows < BLOWS_MIN:
            yield from stage.pause(stage.between(*KILL_SECONDS))
            blows += 1
            yield from workers.freeze_one() if blows % 3 == 2 else workers.kill_one()
        for _ in range(
            FREEZES_MORE_MAX
        ):  # None was rejected if each worker froze outside of a sale.
            if workers.has_refused:
                break
            yield from workers.freeze_one()
        self._is_under_fire = False

    def _judging(self) -> Act:
        """Send judgements, and wait until all are processed."""
        stage, feedback = self._stage, self._feedback
        while stage.passed < self._options.seconds * JUDGING_SHARE:
            feedback.judge()
            yield from stage.pause(FEEDBACK_SECONDS)
        text = f"the agent resumed from its cursor and has read all {feedback.judged} judgements"
        yield from stage.await_event(
            "feedback", text, lambda: feedback.processed >= feedback.judged, DRAIN_SECONDS
        )
