"""Kill an orchestrator or its agents again and again, and compare with a run in peace.

Run as `python -m tests.system.orchestrator_matrix POINT[,POINT…] KILLS SEED DIRECTORY`. A point of
`agents.cache.` kills agents, `random` kills agents, the orchestrator or both at any moment, and
every other point kills the orchestrator there; each so many times. It forks from a parent that has
everything imported, and the points share one run in peace. Prints a JSON summary; a broken promise
is an AssertionError and exit code 1.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from onceward import crash
from onceward.agents.orphans import process_stat
from tests.system import orchestrator_world as world
from tests.system.lives import scenario_for

LIVES_MAX = 5000
MOMENT_SECONDS_MAX = 0.7
#: Where an agent or its command is in the middle of something when the kill comes.
IN_THE_MIDDLE = ("agents.send.after_write", "agents.cache.before_store", "random")
#: How many passes of a point a life may make before it dies there; fewer than one run has.
PASSES_MAX = {"orchestrator.run.": 1, "orchestrator.task.": 2, "": 8}
#: Dies in the middle of the work, so that the next life has something to resume.
DYING = "orchestrator.answer.before_record"


class NeverEnding(AssertionError):
    """The run does not come to its end, however often it is resumed."""


class Story:
    """One run that is killed, resumed, killed and so on, and comes to its end."""

    def __init__(self, point: str, workspace: Path, source: random.Random) -> None:
        self.point, self.workspace, self.source = point, workspace, source
        #: Kills that were asked for, and all there were.
        self.kills = self.deaths = 0

    def start(self, spec: str = "") -> int:
        """Fork a life, armed or not; it exits with 0 once the run is done."""
        child = os.fork()
        if child == 0:
            crash.arm(spec)
            code = 1
            try:
                code = 0 if world.resume(self.workspace) else 3
            except BaseException:  # noqa: BLE001 - told, then the child ends whatever it was
                sys.excepthook(*sys.exc_info())
            os._exit(code)
        return child

    def is_killed(self, child: int) -> bool:
        """Wait for a life to end; say whether it was killed."""
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert killed or status == 0, status
        self.deaths += killed
        return killed

    def at_point(self, kills: int) -> None:
        """Kill the orchestrator, so often at most, at this point."""
        for _ in range(LIVES_MAX):
            spec = f"{self.point}:{self.source.randint(1, self.passes)}:kill"
            if not self.is_killed(self.start(spec if self.kills < kills else "")):
                return
            self.kills += 1
        raise NeverEnding

    def at_resume(self, kills: int) -> None:
        """Kill whoever resumes; before each there must be somebody who dies at work."""
        while self.kills < kills:
            dying = f"{DYING}:{self.source.randint(1, self.passes)}:kill"
            if not self.is_killed(self.start(dying)):
                return
            assert self.is_killed(self.start(f"{self.point}:1:kill"))
            self.kills += 1
        assert not self.is_killed(self.start())

    def at_agents(self, kills: int) -> None:
        """Kill one agent of each kind, so many at most, while it keeps a result."""
        for agent in ("builder", "reviewer", "spec_maintainer")[:kills]:
            spec = f"{self.point}:{self.source.randint(1, 5)}:kill"
            world.order_death(self.workspace, agent, spec)
        assert not self.is_killed(self.start())
        self.kills = self.deaths = len(world.records(self.workspace, "agent.restarting"))

    def at_random(self, kills: int) -> None:
        """Kill agents, the orchestrator or both, at any moment."""
        for _ in range(LIVES_MAX):
            child = self.start()
            is_over = False
            while self.kills < kills and not is_over:
                time.sleep(self.source.uniform(0, MOMENT_SECONDS_MAX))
                target = self.source.choice(("orchestrator", "agent", "both"))
                if target != "orchestrator" and self.kill_agent():
                    self.kills += 1
                    self.deaths += 1
                if target != "agent":
                    os.kill(child, signal.SIGKILL)  # Ours, and not reaped: nobody else has its pid.
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
            os.kill(self.source.choice(alive), signal.SIGKILL)
            return True
        return False

    @property
    def passes(self) -> int:
        return scenario_for(self.point, PASSES_MAX)

    def check(self, peace: dict[str, object]) -> None:
        """Compare with the undisturbed run, and with what the agents wrote down."""
        found = world.outcome(self.workspace)
        for name in ("files", "receipts", "ledger"):
            assert found[name] == peace[name], (name, found[name], peace[name])
        done = world.counts(self.workspace)
        for key, acts in done.items():
            # Who was killed between the end of the work and keeping its result does it again.
            rest = "".join(f"{act} " for act in acts)
            assert rest.count("kept") <= 1, (key, acts)
            assert "kept started" not in rest, (key, acts)
            assert acts.count("completed") >= 1, (key, acts)
        again = sum(acts.count("started") - 1 for acts in done.values())
        assert again <= (self.deaths if self.point in IN_THE_MIDDLE else 0), done
        asked = [each["command"] for each in found["ledger"] if each["kind"] == "command"]
        assert sorted(done) == sorted(each["idempotency_key"] for each in asked)
        run_id = world.ledger_of(self.workspace).stem
        verified = world.orchestrator(self.workspace).verify(run_id)
        assert verified.ok, verified


def _is_alive(pid: int, ticks: int) -> bool:
    found = process_stat(pid)
    return found is not None and found.started_ticks == ticks and found.is_alive


#: Where an orchestrator, or an agent, can be made to die, and how.
SCENARIOS: dict[str, Callable[[Story, int], None]] = {
    "orchestrator.resume.": Story.at_resume,
    "orchestrator.": Story.at_point,
    "agents.send.": Story.at_point,
    "agents.cache.": Story.at_agents,
    "random": Story.at_random,
}


def main(points: list[str], kills: int, seed: int, directory: Path) -> None:
    peaceful = world.build(directory / "peace")
    world.run(peaceful)
    peace = world.outcome(peaceful)
    told = {}
    for point in points:
        source = random.Random(seed)
        total = runs = 0
        while total < kills:
            runs += 1
            assert runs <= 3 * kills, f"{point} is seldom reached"
            story = Story(point, world.build(directory / f"{point}-{runs}"), source)
            scenario_for(point, SCENARIOS)(story, kills - total)
            story.check(peace)
            total += story.kills
            shutil.rmtree(story.workspace)
        told[point] = {"kills": total, "runs": runs}
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
