"""Short demo: `onceward demo`: five systems, real kills, and a table of results.

Owns what is played and in which order. Each line is printed after its event was seen; the table is
counted afterwards by `result_counts`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.demo import leads
from onceward.demo.chat_demo import ECHO, GROUP, Talk
from onceward.demo.demo_home import DemoWorld, check_empty, prepare
from onceward.demo.demo_processes import Cast
from onceward.demo.feedback_demo import Judges
from onceward.demo.interleaving import Act, Stage, StageEvent
from onceward.demo.lead_workers import Crew
from onceward.demo.memory_demo import Notes
from onceward.demo.result_counts import Row, sold, tally, total
from onceward.demo.run_demo import Runs, make_workspace
from onceward.stores import open_store
from onceward.system import Clock, Randomness

#: The default time for which workers are under fire.
SECONDS: Final = 25.0
#: How many leads come in each second; three workers can sell more.
LEADS_PER_SECOND: Final = 15
FEEDBACK_SECONDS: Final = 0.7
#: For which part of the time people judge.
JUDGING_SHARE: Final = 0.7
BLOWS_MIN: Final = 2
#: So many workers are frozen after that, at the most, until one wakes too late.
FREEZES_MORE_MAX: Final = 5
KILL_SECONDS: Final = (1.0, 2.5)
#: What came in last is sold this soon, also on a busy machine.
DRAIN_SECONDS: Final = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoOptions:
    """The options of the short demonstration."""

    seconds: float = SECONDS


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    """The result of the short demonstration."""

    #: How long it took.
    seconds: float
    events: tuple[StageEvent, ...]
    rows: tuple[Row, ...]

    @property
    def total(self) -> Row:
        """Return all parts together."""
        return total(self.rows)


def tell_story(
    world: DemoWorld,
    tell: Callable[[StageEvent], None],
    options: DemoOptions | None = None,
    *,
    clock: Clock | None = None,
    randomness: Randomness | None = None,
) -> Story:
    """Play everything in a world that is new, tell it as it happens, and count what became of it.

    From the main thread, which lives as long as the processes. Nothing of it runs afterwards.
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
        cast = Cast(world, clock=clock)
        try:
            _Play(stage, cast, world, ow, options or DemoOptions()).play()
        finally:
            cast.end()
        rows = tuple(tally(world, ow))
    return Story(seconds=round(stage.passed, 1), events=tuple(events), rows=rows)


class _Play:
    """All acts, side by side."""

    def __init__(
        self, stage: Stage, cast: Cast, world: DemoWorld, ow: Onceward, options: DemoOptions
    ) -> None:
        self._stage, self._ow, self._options = stage, ow, options
        self._crew = Crew(stage, cast, ow)
        self._judges = Judges(stage, cast, world, ow)
        self._notes = Notes(stage, cast, world)
        self._talk = Talk(stage, cast, world, ow)
        make_workspace(world.workspace)
        self._runs = Runs(stage, cast, world)
        self._is_under_fire = True

    def play(self) -> None:
        """Play until every act has ended."""
        self._talk.add(GROUP, ECHO)
        self._judges.start()
        detail = "people judge what agents made; each judgement is sent twice"
        self._stage.tell("feedback", detail)
        self._stage.play(
            self._selling(),
            self._fire(),
            self._runs.one(),
            self._judging(),
            self._judges.kill_listener(),
            self._notes.remember(),
            self._talk.converse(),
        )
        self._crew.stop()

    def _selling(self) -> Act:
        """Let leads come in while workers are under fire, and wait until all are sold."""
        self._crew.start()
        self._stage.tell("leads", f"three workers sell leads in {len(leads.NICHES)} niches")
        came, stage = 0, self._stage
        while self._is_under_fire:
            due = int(stage.passed * LEADS_PER_SECOND) + LEADS_PER_SECOND - came
            self._crew.submit(due)
            came += due
            yield from stage.pause(0.2)
        stage.tell("leads", f"{came} leads came in; the workers finish what is left")
        text = "every lead is sold"
        yield from stage.see("leads", text, lambda: sold(self._ow).lost == 0, DRAIN_SECONDS)
        if given_up := sum(self._ow.dead.count().values()):
            stage.tell("leads", f"without a contact, and so among the dead letters: {given_up}")

    def _fire(self) -> Act:
        """Kill workers, and freeze some, for so many seconds, until one of these was refused."""
        stage, crew, blows = self._stage, self._crew, 0
        while stage.passed < self._options.seconds or blows < BLOWS_MIN:
            yield from stage.pause(stage.between(*KILL_SECONDS))
            blows += 1
            yield from crew.freeze_one() if blows % 3 == 2 else crew.kill_one()
        for _ in range(FREEZES_MORE_MAX):  # It was not, if each froze at a bad moment.
            if crew.has_refused:
                break
            yield from crew.freeze_one()
        self._is_under_fire = False

    def _judging(self) -> Act:
        """Let judgements come in, and wait until all are heard."""
        stage, judges = self._stage, self._judges
        while stage.passed < self._options.seconds * JUDGING_SHARE:
            judges.judge()
            yield from stage.pause(FEEDBACK_SECONDS)
        text = f"the agent went on from its cursor, and has heard all {judges.judged} judgements"
        yield from stage.see("feedback", text, lambda: judges.heard >= judges.judged, DRAIN_SECONDS)
