"""Endless demo: run the demo until it is stopped: `endless_demo HOME STORE`.

A separate process, so that it takes no time from the one that serves the console. Runs at a pace
that hardly loads a small machine.
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
from onceward.demo.chat_demo import ChatDemo
from onceward.demo.demo_home import DemoWorld
from onceward.demo.demo_processes import DemoProcesses
from onceward.demo.feedback_demo import FeedbackDemo
from onceward.demo.interleaving import Act, Stage, StageEvent
from onceward.demo.lead_workers import LeadWorkers
from onceward.demo.memory_demo import MemoryDemo
from onceward.demo.run_demo import RunDemo, add_task, make_workspace
from onceward.errors import OncewardError
from onceward.journal import atomic_file
from onceward.memory import Memory
from onceward.outcomes.models import OutcomeState

#: Sales take long, so that few leads keep three workers busy.
SELLING_SECONDS: Final = 1.2
LEAD_SECONDS: Final = 0.6
FIRST_LEADS: Final = 120
INTERRUPTION_SECONDS: Final = (6.0, 12.0)
RUN_SECONDS: Final = 25.0
JUDGE_SECONDS: Final = 5.0
READER_SECONDS: Final = 40.0
REMEMBER_SECONDS: Final = 4.0
TALK_SECONDS: Final = 9.0
#: How many ambiguous calls may wait for an operator.
AMBIGUOUS_CALLS_MAX: Final = 3
AMBIGUOUS_CALL_SECONDS: Final = 60.0
#: For how many processes logs are kept.
LOGS_MAX: Final = 60
#: Pause after a temporary error.
AGAIN_SECONDS: Final = 2.0


class EndlessDemo:
    """Runs all parts of the endless demo."""

    def __init__(
        self, stage: Stage, processes: DemoProcesses, world: DemoWorld, ow: Onceward
    ) -> None:
        """Create the parts without starting them."""
        self._stage, self._processes, self._world, self._ow = stage, processes, world, ow
        self._workers = LeadWorkers(stage, processes, ow)
        self._feedback = FeedbackDemo(stage, processes, world, ow)
        self._notes = MemoryDemo(stage, processes, world)
        self._talk = ChatDemo(stage, processes, world, ow)
        self._runs = RunDemo(stage, processes, world)
        self._memory = Memory(ow, source="demo")
        self._run_ids: list[str] = []
        self._calls = 0

    def begin(self) -> None:
        """Create some data of every kind, before a page is opened."""
        leads.create(self._ow)
        self._workers.submit(FIRST_LEADS)
        make_workspace(self._world.workspace, tasks=())
        self._run_ids = seed_data.create_runs(self._world, self._feedback.lab)
        seed_data.create_experiments(self._feedback.lab, self._run_ids)
        for group in ("sales", "support"):
            self._talk.add(group, seed_data.RULES)
        self._talk.send("what is the meaning of life?", group="support", sender="bob")
        for _ in range(3):
            self._judge()
            self._notes.learn(self._memory, self._ow)
        self._workers.start()
        self._feedback.start()

    def run(self) -> None:
        """Run until a signal ends the process."""
        self._stage.run(
            self._repeat(self._sell),
            self._repeat(self._kill_and_freeze_workers),
            self._repeat(self._run),
            self._repeat(self._add_judgements),
            self._repeat(self._kill_reader),
            self._repeat(self._remember),
            self._repeat(self._converse),
            self._repeat(self._leave_ambiguous_call),
        )

    def _repeat(self, act: Callable[[], Act]) -> Act:
        """Repeat a part forever; log its errors."""
        while True:
            try:
                yield from act()
            except OncewardError as exc:
                self._stage.tell("trouble", f"{act.__name__}: {exc.message}")
                yield from self._stage.pause(AGAIN_SECONDS)
            yield

    # --- the parts --------------------------------------------------------------------------------

    def _sell(self) -> Act:
        self._workers.submit(1)
        self._workers.start()  # A worker that another process killed is replaced, too.
        yield from self._stage.pause(self._stage.between(0.5, 1.5) * LEAD_SECONDS)

    def _kill_and_freeze_workers(self) -> Act:
        for interrupt in (self._workers.kill_one, self._workers.freeze_one):
            yield from self._stage.pause(self._stage.between(*INTERRUPTION_SECONDS))
            yield from interrupt()

    def _run(self) -> Act:
        yield from self._runs.one(add_task(self._world.workspace))
        yield from self._stage.pause(RUN_SECONDS)

    def _add_judgements(self) -> Act:
        yield from self._stage.pause(self._stage.between(0.5, 1.5) * JUDGE_SECONDS)
        self._judge()

    def _judge(self) -> None:
        self._feedback.judge(run_id=self._stage.one_of(self._run_ids))

    def _kill_reader(self) -> Act:
        yield from self._stage.pause(READER_SECONDS)
        yield from self._feedback.kill_reader(after=1)

    def _remember(self) -> Act:
        yield from self._stage.pause(self._stage.between(0.5, 1.5) * REMEMBER_SECONDS)
        self._notes.learn(self._memory, self._ow)

    def _converse(self) -> Act:
        for group, sender, text in seed_data.TALK:
            yield from self._stage.pause(self._stage.between(0.5, 1.5) * TALK_SECONDS)
            self._talk.send(text, group=group, sender=sender)

    def _leave_ambiguous_call(self) -> Act:
        """Leave a call ambiguous, unless enough of them wait for an operator."""
        open_calls = self._ow.outcomes.list(state=OutcomeState.AMBIGUOUS, scope=phone_call.SCOPE)
        if len(open_calls) < AMBIGUOUS_CALLS_MAX:
            self._calls += 1
            number = str(self._calls)
            words = (self._world.store_url, number)
            process = self._processes.start(
                "doubt", "caller", *words, module="onceward.demo.phone_call"
            )

            def is_ringing() -> bool:
                key = phone_call.key_of(number)
                return bool(self._ow.outcomes.effects(phone_call.SCOPE, key)) or process.has_ended

            yield from self._stage.until(is_ringing, AMBIGUOUS_CALL_SECONDS)
            self._processes.kill(process)
        yield from self._stage.pause(AMBIGUOUS_CALL_SECONDS)


def main(home: str, store_url: str) -> None:
    """Create the first data, announce that the demo is ready, and run it."""
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, _stop)
    os.environ[leads.SELLING_VARIABLE] = str(SELLING_SECONDS)
    world = DemoWorld(home=Path(home), store_url=store_url)
    processes = DemoProcesses(world, logs_max=LOGS_MAX)
    try:
        with closing(open_handle(store_url)) as ow:
            demo = EndlessDemo(Stage(_log), processes, world, ow)
            demo.begin()
            atomic_file.write(world.ready, b"")
            demo.run()
    finally:
        # A second signal must not interrupt the cleanup.
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)
        processes.kill_all()


def _stop(_: int, __: FrameType | None) -> NoReturn:
    sys.exit(0)


def _log(event: StageEvent) -> None:
    sys.stderr.write(f"{event.at:.1f} {event.part}: {event.text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
