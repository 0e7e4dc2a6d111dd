"""Feedback demo: people judge agents' outputs, and an agent reads each judgement once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from onceward.client import Onceward
from onceward.demo.attempt_log import Attempts
from onceward.demo.demo_home import DemoWorld
from onceward.demo.demo_processes import DemoProcess, DemoProcesses
from onceward.demo.interleaving import Act, Stage, counted
from onceward.lab.lab import Lab
from onceward.lab.lab_paths import LabPaths
from onceward.lab.request_models import NewFeedback, Ratings
from onceward.lab.sessions import open_session

PART: Final = "feedback"
READ_SECONDS: Final = 20.0
_SAID: Final = (
    "the price is missing",
    "clear and short",
    "too much text before the offer",
    "I would call them",
    "who is speaking here?",
)


class FeedbackDemo:
    """The people who send judgements, and the agent that reads them."""

    def __init__(
        self, stage: Stage, processes: DemoProcesses, world: DemoWorld, ow: Onceward
    ) -> None:
        """Open the Lab of this demo."""
        self._stage, self._processes, self._ow, self._world = stage, processes, ow, world
        self._attempts = Attempts(world)
        paths = LabPaths(root=world.lab_root, feedback=world.feedback)
        self.lab = Lab(paths=paths, session=open_session(paths), roots=world.lab_roots)
        self._reader: DemoProcess | None = None
        self._judged = 0

    def start(self) -> None:
        """Start the agent; it resumes from its cursor."""
        words = (self._world.store_url, str(self._world.feedback), str(cursor_of(self._world)))
        module = "onceward.demo.feedback_reader"
        self._reader = self._processes.start(PART, "listener", *words, module=module)

    def judge(self, *, run_id: str | None = None, is_retried: bool = True) -> None:
        """Send one judgement twice, as a browser does that got no response."""
        self._judged += 1
        request_id = f"demo-{self._judged}"
        new = NewFeedback(
            runId=run_id,
            topic=None if run_id else "offers",
            ratings=Ratings(overall=40 + 7 * self._judged % 60),
            notes=_SAID[self._judged % len(_SAID)],
        )
        for _ in range(2 if is_retried else 1):
            self._attempts.note(PART, request_id)
            self.lab.add_feedback(new, request_id)

    def kill_reader(self, after: int = 3) -> Act:
        """Kill the agent after it has read more judgements; it resumes from its cursor."""
        assert self._reader is not None
        wanted = self.processed + after
        yield from self._stage.until(lambda: self.processed >= wanted, READ_SECONDS)
        self._processes.kill(self._reader)
        text = f"the reading agent is killed after {counted(self.processed, 'judgement')}"
        self._stage.tell(PART, f"{text}; it starts again", is_blow=True)
        self.start()

    @property
    def judged(self) -> int:
        """Return how many different judgements were sent."""
        return self._judged

    @property
    def processed(self) -> int:
        """Return how many judgements the agent has processed."""
        ((count,),) = self._ow.store.select("select count(*) from demo_heard")
        return int(count)


def cursor_of(world: DemoWorld) -> Path:
    """Return the file of the reading agent's cursor."""
    return world.home / "listener.cursor"
