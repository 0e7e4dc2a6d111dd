"""Runs under kill -9: orchestrators and agents die, and the end is compared with a run in peace.

A point of `agents.cache.` kills an agent, every other one the orchestrator. Run as
`python -m tests.support.crash_scenarios.orchestrator KILLS SEED DIRECTORY` it kills agents, the
orchestrator or both at any moment, and prints a JSON summary; a broken promise is an AssertionError
and exit code 1.
"""

import functools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from onceward.agents.orphan_processes import AgentRecord, end_orphans
from onceward.system import crash_points, process_stat
from tests.support import scripted_workspace as world
from tests.support.killed_processes import Ack, Life, Place, Scenario, Step

LIVES_MAX = 5000
MOMENT_SECONDS_MAX = 0.7
#: Where an agent or its command is in the middle of something when the kill comes.
IN_THE_MIDDLE = ("agents.send.after_write", "agents.cache.before_store")
#: Dies in the middle of the work, so that the next life has something to resume.
DYING = "orchestrator.answer.before_record"
ONCE = (1, "a run passes it once")
ONCE_RESUMED = (1, "a resumed run passes it once")
ONCE_KEPT = (1, "files differ once: what the dead process left unfinished")
#: Passed only by a process that finds files which the previous one left unfinished.
KEPT = "orchestrator.backup."
BEGIN, END = "orchestrator.run.after_start", "orchestrator.run.before_complete"
AGENTS = ("builder", "reviewer", "spec_maintainer")


class NeverEnding(AssertionError):
    """The run does not come to its end, however often it is resumed."""


@functools.cache
def peace() -> dict[str, Any]:
    """Return the end of a run without any crash."""
    with tempfile.TemporaryDirectory() as directory:
        workspace = world.build(Path(directory))
        world.run(workspace)
        return world.outcome(workspace)


class Story(Scenario):
    """One run that is killed, resumed, killed and so on, and comes to its end."""

    limits: ClassVar = {
        BEGIN: ONCE,
        END: ONCE,
        "orchestrator.backup.before_rename": ONCE_KEPT,
        "orchestrator.backup.after_rename": ONCE_KEPT,
        "orchestrator.resume.after_truncate": ONCE_RESUMED,
        "orchestrator.resume.after_orphans": ONCE_RESUMED,
        "orchestrator.resume.after_record": ONCE_RESUMED,
    }
    passes_max = 3
    is_ending = True
    then_max = 2  # A run takes seconds.

    def __init__(self, place: Place) -> None:
        peace()  # Before any child is forked.
        super().__init__(place)
        self.workspace = world.build(self.directory)
        #: The crash point at which each agent was ordered to die.
        self.orders: dict[str, str] = {}
        #: Work that may be done again because of a kill.
        self.excused = 0

    def work(self, life: int, ack: Ack) -> None:  # noqa: ARG002 - the shape
        assert world.resume(self.workspace)

    def finish(self, life: int, ack: Ack) -> None:
        """Go on to the end, and say when a command was done."""

        def passed(point: str) -> None:
            if point in ("orchestrator.receipt.after_record", END):
                ack(point)

        crash_points.watch(passed)
        self.work(life, ack)

    def die(self, step: Step, life: int) -> list[str]:
        """Kill the orchestrator, or tell the next agent of a kind to die in the next life."""
        self.excused += step.point in IN_THE_MIDDLE
        if step.point.startswith("agents.cache."):
            agent = AGENTS[len(self.orders)]
            self.orders[agent] = step.spec
            world.order_death(self.workspace, agent, step.spec)
            return []
        acks = super().die(step, life)
        # An agent that took its order may die with the orchestrator, and not as ordered.
        if missing := self.orders.keys() - set(self.restarted()):
            started = world.records(self.workspace, "agent.started")
            end_orphans([AgentRecord.from_fields(each) for each in started])
            for agent in missing:
                world.order_death(self.workspace, agent, self.orders[agent])
        return acks

    def restarted(self) -> list[str]:
        """Return the agents whose death the orchestrator saw."""
        return [each["agent"] for each in world.records(self.workspace, "agent.restarting")]

    def settle(self, lives: Sequence[Life]) -> None:  # noqa: ARG002 - the shape
        """Compare with the undisturbed run, and with what the agents wrote down."""
        restarted = self.restarted()
        assert sorted(restarted) == sorted(self.orders), f"{restarted} died, not {self.orders}"
        self.compare()

    @classmethod
    def before(cls, step: Step, previous: Step | None) -> Step | None:
        """Let a process die at work before the one that resumes or backs up unfinished files."""
        is_fresh = previous is None or previous.point.startswith("agents.cache.")
        if step.point.startswith(KEPT):
            is_ready = previous is not None and previous.point == f"{KEPT}before_rename"
            return None if is_ready else Step(DYING)
        return Step(DYING) if is_fresh and step.point.startswith("orchestrator.resume.") else None

    @classmethod
    def chain(cls, points: Sequence[str]) -> Sequence[str]:
        """Return them so that the run begins, its first build is cut off, and it ends last."""
        first = [BEGIN, *(point for point in points if point.startswith(KEPT))]
        middle = [point for point in points if point not in (*first, END)]
        return [point for point in (*first, *middle, END) if point in points]

    @classmethod
    def pairs(cls, points: Sequence[str], source: random.Random) -> list[tuple[str, str]]:
        """Return the same, but a run begins once, and one that ends can only be resumed."""
        resuming = [point for point in points if point.startswith("orchestrator.resume.")]
        later = [each for each in points if each != BEGIN and not each.startswith(KEPT)]
        return [
            (p, q)
            for p in points
            for q in source.sample(resuming if p == END else later, cls.then_max)
        ]

    def compare(self) -> None:
        """Find nothing that a run in peace has not, and nothing done again without an excuse."""
        found = world.outcome(self.workspace)
        for name, value in peace().items():
            assert found[name] == value, (name, found[name], value)
        done = world.counts(self.workspace)
        for key, acts in done.items():
            # An agent killed between the end of the work and keeping its result does it again.
            rest = "".join(f"{act} " for act in acts)
            assert rest.count("kept") <= 1, (key, acts)
            assert "kept started" not in rest, (key, acts)
            assert acts.count("completed") >= 1, (key, acts)
        self.repeated = sum(acts.count("started") - 1 for acts in done.values())
        assert self.repeated <= self.excused, done
        asked = [each["command"] for each in found["ledger"] if each["kind"] == "command"]
        assert sorted(done) == sorted(each["idempotency_key"] for each in asked)
        run_id = world.ledger_of(self.workspace).stem
        verified = world.orchestrator(self.workspace).verify(run_id)
        assert verified.ok, verified


class Storm(Story):
    """A run in which the orchestrator or an agent may die at any moment."""

    kills = 0

    def start(self) -> int:
        """Fork a life; it exits with 0 once the run is done."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if world.resume(self.workspace) else 3
            except BaseException:  # noqa: BLE001 - reported, then the child ends whatever it was
                sys.excepthook(*sys.exc_info())
            os._exit(code)
        return child

    def is_killed(self, child: int) -> bool:
        """Wait for a life to end; say whether it was killed."""
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert killed or status == 0, status
        self.excused += killed
        return killed

    def rage(self, kills: int) -> None:
        """Kill agents, the orchestrator or both, at any moment."""
        for _ in range(LIVES_MAX):
            child = self.start()
            is_over = False
            while self.kills < kills and not is_over:
                time.sleep(self.place.source.uniform(0, MOMENT_SECONDS_MAX))
                target = self.place.source.choice(("orchestrator", "agent", "both"))
                if target != "orchestrator" and self.kill_agent():
                    self.kills += 1
                    self.excused += 1
                if target != "agent":
                    os.kill(child, signal.SIGKILL)  # A child, not reaped: its pid is not reused.
                flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
                is_over = target != "agent" or bool(os.waitid(os.P_PID, child, flags))
            if not self.is_killed(child):
                return
            self.kills += 1
        raise NeverEnding

    def kill_agent(self) -> bool:
        """Kill an agent that the ledger knows to have been started; say whether there was one."""
        standing: dict[int, int] = {}
        for ledger in (self.workspace / "events").glob("*.ndjson"):
            for line in ledger.read_bytes().splitlines():
                with suppress(ValueError):
                    record = json.loads(line)
                    if record["kind"] == "agent.started":
                        standing[record["pid"]] = record["started_ticks"]
        alive = [pid for pid, ticks in standing.items() if _is_alive(pid, ticks)]
        if not alive:
            return False
        with suppress(ProcessLookupError):
            os.kill(self.place.source.choice(alive), signal.SIGKILL)
            return True
        return False


def _is_alive(pid: int, ticks: int) -> bool:
    found = process_stat(pid)
    return found is not None and found.started_ticks == ticks and found.is_alive


SCENARIOS: dict[str, type[Scenario]] = {"orchestrator.": Story, "agents.": Story}


def main(kills: int, seed: int, directory: Path) -> None:
    source = random.Random(seed)
    total = runs = repeated = commands = 0
    while total < kills:
        runs += 1
        assert runs <= 3 * kills, "it is seldom killed"
        story = Storm(Place("", directory / f"{runs}", source))
        story.rage(kills - total)
        story.compare()
        total, repeated = total + story.kills, repeated + story.repeated
        commands += len(world.counts(story.workspace))
        shutil.rmtree(story.workspace)
    summary = {"kills": total, "runs": runs, "repeated": repeated, "commands": commands}
    json.dump(summary, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
