"""Feedback demo: people judge what agents made, and an agent reads each judgement once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from onceward.client import Onceward
from onceward.demo.attempt_log import Attempts
from onceward.demo.demo_home import DemoWorld
from onceward.demo.demo_processes import Cast, Player
from onceward.demo.interleaving import Act, Stage, counted
from onceward.lab.lab import Lab
from onceward.lab.lab_paths import LabPaths
from onceward.lab.request_models import NewFeedback, Ratings
from onceward.lab.sessions import open_session

PART: Final = "feedback"
HEAR_SECONDS: Final = 20.0
_SAID: Final = (
    "the price is missing",
    "clear and short",
    "too many words before the offer",
    "I would call them",
    "who is speaking here?",
)


class Judges:
    """Who judges, and who listens."""

    def __init__(self, stage: Stage, cast: Cast, world: DemoWorld, ow: Onceward) -> None:
        """Open the Lab of this world."""
        self._stage, self._cast, self._ow, self._world = stage, cast, ow, world
        self._attempts = Attempts(world)
        paths = LabPaths(root=world.lab_root, feedback=world.feedback)
        self.lab = Lab(paths=paths, session=open_session(paths), roots=world.lab_roots)
        self._listener: Player | None = None
        self._judged = 0

    def start(self) -> None:
        """Let the agent listen, from where it was when it last ended."""
        words = (self._world.store_url, str(self._world.feedback), str(cursor_of(self._world)))
        module = "onceward.demo.feedback_reader"
        self._listener = self._cast.start(PART, "listener", *words, module=module)

    def judge(self, *, run_id: str | None = None, is_retried: bool = True) -> None:
        """Send one judgement; and once more, as a browser does that got no answer."""
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

    def kill_listener(self, after: int = 3) -> Act:
        """Kill the agent after it has heard some more, and let it go on from its cursor."""
        assert self._listener is not None
        wanted = self.heard + after
        yield from self._stage.until(lambda: self.heard >= wanted, HEAR_SECONDS)
        self._cast.kill(self._listener)
        text = f"the agent that listens is killed after {counted(self.heard, 'judgement')}"
        self._stage.tell(PART, f"{text}; it starts again", is_blow=True)
        self.start()

    @property
    def judged(self) -> int:
        """Return how many judgements were sent, repeats left out."""
        return self._judged

    @property
    def heard(self) -> int:
        """Return how many judgements the agent has taken in."""
        ((count,),) = self._ow.store.select("select count(*) from demo_heard")
        return int(count)


def cursor_of(world: DemoWorld) -> Path:
    """Return the file in which the listening agent keeps its place."""
    return world.home / "listener.cursor"
