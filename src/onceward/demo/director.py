"""Director: plays a living story until it is told to stop: `director HOME STORE`.

A process of its own, so that whoever serves the console has its time for itself. Everything here
goes on for ever, at a pace that a small machine does not notice.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from onceward.demo import caller, leads, scenery
from onceward.demo.cast import Cast
from onceward.demo.crew import Crew
from onceward.demo.judges import Judges
from onceward.demo.notes import Notes
from onceward.demo.runs import Runs, add_task, make_workspace
from onceward.demo.stage import Act, Event, Stage
from onceward.demo.talk import Talk
from onceward.demo.world import DemoWorld
from onceward.errors import OncewardError
from onceward.handle import Onceward
from onceward.handle import open as open_handle
from onceward.journal import atomic
from onceward.memory import Memory
from onceward.outcomes.models import OutcomeState

#: Sales take long, so that few leads keep three workers busy.
SELLING_SECONDS: Final = 1.2
LEAD_SECONDS: Final = 0.6
FIRST_LEADS: Final = 120
BLOW_SECONDS: Final = (6.0, 12.0)
RUN_SECONDS: Final = 25.0
JUDGE_SECONDS: Final = 5.0
LISTENER_SECONDS: Final = 40.0
REMEMBER_SECONDS: Final = 4.0
TALK_SECONDS: Final = 9.0
#: So many calls wait for somebody to decide, and no more.
DOUBTS_MAX: Final = 3
DOUBT_SECONDS: Final = 60.0
#: Of how many processes the logs are kept.
LOGS_MAX: Final = 60
#: After an error that may pass.
AGAIN_SECONDS: Final = 2.0


class Director:
    """All acts of a story without an end."""

    def __init__(self, stage: Stage, cast: Cast, world: DemoWorld, ow: Onceward) -> None:
        """Know everybody."""
        self._stage, self._cast, self._world, self._ow = stage, cast, world, ow
        self._crew = Crew(stage, cast, ow)
        self._judges = Judges(stage, cast, world, ow)
        self._notes = Notes(stage, cast, world)
        self._talk = Talk(stage, cast, world, ow)
        self._runs = Runs(stage, cast, world)
        self._memory = Memory(ow, source="demo")
        self._run_ids: list[str] = []
        self._calls = 0

    def begin(self) -> None:
        """Set the scene: something of everything, before anybody looks."""
        leads.create(self._ow)
        self._crew.submit(FIRST_LEADS)
        make_workspace(self._world.workspace, tasks=())
        self._run_ids = scenery.made_runs(self._world, self._judges.lab)
        scenery.compared(self._judges.lab, self._run_ids)
        for group in ("sales", "support"):
            self._talk.add(group, scenery.RULES)
        self._talk.say("what is the meaning of it all?", group="support", sender="bob")
        for _ in range(3):
            self._judge()
            self._notes.learn(self._memory, self._ow)
        self._crew.start()
        self._judges.start()

    def play(self) -> None:
        """Play until a signal ends it."""
        self._stage.play(
            self._for_ever(self._sell),
            self._for_ever(self._strike),
            self._for_ever(self._run),
            self._for_ever(self._hear_judgements),
            self._for_ever(self._lose_listener),
            self._for_ever(self._remember),
            self._for_ever(self._converse),
            self._for_ever(self._doubt),
        )

    def _for_ever(self, act: Callable[[], Act]) -> Act:
        """Play an act again and again; what goes wrong in it is told, and passes."""
        while True:
            try:
                yield from act()
            except OncewardError as exc:
                self._stage.tell("trouble", f"{act.__name__}: {exc.message}")
                yield from self._stage.pause(AGAIN_SECONDS)
            yield

    # --- the acts --------------------------------------------------------------------------------

    def _sell(self) -> Act:
        self._crew.submit(1)
        self._crew.start()  # Whoever was ended by somebody else is replaced, too.
        yield from self._stage.pause(self._stage.between(0.5, 1.5) * LEAD_SECONDS)

    def _strike(self) -> Act:
        for strike in (self._crew.kill_one, self._crew.freeze_one):
            yield from self._stage.pause(self._stage.between(*BLOW_SECONDS))
            yield from strike()

    def _run(self) -> Act:
        yield from self._runs.one(add_task(self._world.workspace))
        yield from self._stage.pause(RUN_SECONDS)

    def _hear_judgements(self) -> Act:
        yield from self._stage.pause(self._stage.between(0.5, 1.5) * JUDGE_SECONDS)
        self._judge()

    def _judge(self) -> None:
        self._judges.judge(run_id=self._stage.one_of(self._run_ids))

    def _lose_listener(self) -> Act:
        yield from self._stage.pause(LISTENER_SECONDS)
        yield from self._judges.kill_listener(after=1)

    def _remember(self) -> Act:
        yield from self._stage.pause(self._stage.between(0.5, 1.5) * REMEMBER_SECONDS)
        self._notes.learn(self._memory, self._ow)

    def _converse(self) -> Act:
        for group, sender, text in scenery.TALK:
            yield from self._stage.pause(self._stage.between(0.5, 1.5) * TALK_SECONDS)
            self._talk.say(text, group=group, sender=sender)

    def _doubt(self) -> Act:
        """Leave a call in doubt, unless enough of them wait for somebody who looks."""
        open_calls = self._ow.outcomes.list(state=OutcomeState.AMBIGUOUS, scope=caller.SCOPE)
        if len(open_calls) < DOUBTS_MAX:
            self._calls += 1
            number = str(self._calls)
            words = (self._world.store_url, number)
            player = self._cast.start("doubt", "caller", *words, module="onceward.demo.caller")

            def is_ringing() -> bool:
                key = caller.key_of(number)
                return bool(self._ow.outcomes.effects(caller.SCOPE, key)) or player.has_ended

            yield from self._stage.until(is_ringing, DOUBT_SECONDS)
            self._cast.kill(player)
        yield from self._stage.pause(DOUBT_SECONDS)


def main(home: str, store_url: str) -> None:
    """Set the scene, say that there is something to see, and play."""
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, _stop)
    os.environ[leads.SELLING_VARIABLE] = str(SELLING_SECONDS)
    world = DemoWorld(home=Path(home), store_url=store_url)
    cast = Cast(world, logs_max=LOGS_MAX)
    try:
        with closing(open_handle(store_url)) as ow:
            director = Director(Stage(_log), cast, world, ow)
            director.begin()
            atomic.write(world.ready, b"")
            director.play()
    finally:
        # Nothing comes between a signal and the end of everybody.
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)
        cast.end()


def _stop(_: int, __: FrameType | None) -> NoReturn:
    sys.exit(0)


def _log(event: Event) -> None:
    sys.stderr.write(f"{event.at:.1f} {event.part}: {event.text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
