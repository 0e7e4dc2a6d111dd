"""Endless demo: play the demo until it is stopped: `endless_demo HOME STORE`.

A separate process, so that it takes no time from the one that serves the console. Everything here
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

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.demo import leads, phone_call, seed_data
from onceward.demo.chat_demo import Talk
from onceward.demo.demo_home import DemoWorld
from onceward.demo.demo_processes import Cast
from onceward.demo.feedback_demo import Judges
from onceward.demo.interleaving import Act, Stage, StageEvent
from onceward.demo.lead_workers import Crew
from onceward.demo.memory_demo import Notes
from onceward.demo.run_demo import Runs, add_task, make_workspace
from onceward.errors import OncewardError
from onceward.journal import atomic_file
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
#: At most so many ambiguous calls wait for an operator.
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
        """Create some data of every kind, before a page is opened."""
        leads.create(self._ow)
        self._crew.submit(FIRST_LEADS)
        make_workspace(self._world.workspace, tasks=())
        self._run_ids = seed_data.made_runs(self._world, self._judges.lab)
        seed_data.compared(self._judges.lab, self._run_ids)
        for group in ("sales", "support"):
            self._talk.add(group, seed_data.RULES)
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
        """Play an act again and again; its errors are logged, and the next one goes on."""
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
        self._crew.start()  # A worker that another process killed is replaced, too.
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
        for group, sender, text in seed_data.TALK:
            yield from self._stage.pause(self._stage.between(0.5, 1.5) * TALK_SECONDS)
            self._talk.say(text, group=group, sender=sender)

    def _doubt(self) -> Act:
        """Leave a call ambiguous, unless enough of them wait for an operator."""
        open_calls = self._ow.outcomes.list(state=OutcomeState.AMBIGUOUS, scope=phone_call.SCOPE)
        if len(open_calls) < DOUBTS_MAX:
            self._calls += 1
            number = str(self._calls)
            words = (self._world.store_url, number)
            player = self._cast.start("doubt", "caller", *words, module="onceward.demo.phone_call")

            def is_ringing() -> bool:
                key = phone_call.key_of(number)
                return bool(self._ow.outcomes.effects(phone_call.SCOPE, key)) or player.has_ended

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
            atomic_file.write(world.ready, b"")
            director.play()
    finally:
        # Nothing comes between a signal and the end of everybody.
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)
        cast.end()


def _stop(_: int, __: FrameType | None) -> NoReturn:
    sys.exit(0)


def _log(event: StageEvent) -> None:
    sys.stderr.write(f"{event.at:.1f} {event.part}: {event.text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
