"""Runs under kill -9 while a person edits files, and two more runs that must not wait.

Run as `python -m tests.support.storms.orchestrator_edits KILLS SEED DIRECTORY` it prints a
JSON summary; a broken promise is an AssertionError and exit code 1.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from onceward.agents.orphan_processes import AgentRecord, end_orphans
from onceward.errors import Drifted, RunHeld
from onceward.journal.process_lock import is_process_lock_held
from onceward.orchestrator.tasks import load_task
from onceward.orchestrator.workspace import Workspace
from onceward.orchestrator.workspace_tree import WorkspaceTree
from onceward.system import SystemClock, SystemFiles
from tests.support import scripted_workspace as world
from tests.support.crash_scenarios.orchestrator import (
    LIVES_MAX,
    MOMENT_SECONDS_MAX,
    NeverEnding,
    Storm,
)
from tests.support.killed_processes import Place

REFUSED, DRIFTED = 7, 5
#: What a person may say to changed files; None is refused.
DECISIONS: tuple[dict[str, Any], ...] = ({"accept_drift": True}, {"redo": True}, {})
#: Notes what a reviewer saw when its answer was kept.
SEEING = """
    import hashlib
    inner = agent.cache.put
    def see(answer, workspace):
        paths = sorted(Path("src").iterdir())
        files = [(p.name, hashlib.sha256(p.read_bytes()).hexdigest()) for p in paths]
        seen = hashlib.sha256(repr(files).encode())
        # First: killed in between, it would answer from what it kept without another look.
        with open("state/counts/seen", "a") as file:
            file.write(seen.hexdigest() + "\\n")
        inner(answer, workspace)
    agent.cache.put = see
    agent.run()
"""


class EditedRun(Storm):
    """A run whose processes are killed and whose files a person changes at any moment."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        config = self.workspace / "onceward.json"
        settings: dict[str, Any] = json.loads(config.read_text())
        settings["limits"]["rounds_max"] = 1000
        reviewer = settings["agents"]["reviewer"]["command"]
        reviewer[2] = reviewer[2].replace("    agent.run()\n", SEEING)
        config.write_text(json.dumps(settings))
        #: What a person wrote and did not overwrite, with its path.
        self.written: dict[str, str] = {}
        self.edits = self.refused = 0
        #: How often a person changed the file of a task.
        self.changed = dict.fromkeys(world.TASKS, 0)

    def start(self) -> int:
        decision = self.place.source.choice(DECISIONS)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if self.live(decision) else 3
            except Drifted:
                code = DRIFTED
            except BaseException:  # noqa: BLE001 - reported, then the child ends whatever it was
                sys.excepthook(*sys.exc_info())
            os._exit(code)
        return child

    def live(self, decision: dict[str, Any]) -> bool:
        conductor = world.orchestrator(self.workspace)
        if not conductor.runs():
            world.run(self.workspace)
            return True
        result = conductor.resume(**decision)
        assert result.status == "done", result
        return True

    def rage(self, kills: int) -> None:
        """Kill, edit and start impatient runs, until the run is done."""
        for _ in range(LIVES_MAX):
            child = self.start()
            while self.kills < kills:
                time.sleep(self.place.source.uniform(0, MOMENT_SECONDS_MAX))
                act = self.place.source.choice(("kill", "kill", "agent", "edit", "impatient"))
                if act == "edit":
                    self.write(f"src/hand-{self.edits}.txt")
                elif act == "impatient":
                    self.be_impatient(child)
                elif act == "agent":
                    self.kills += self.kill_agent()
                else:
                    os.kill(child, signal.SIGKILL)
                    break
                flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
                if os.waitid(os.P_PID, child, flags):
                    break
            _, status = os.waitpid(child, 0)
            if os.WIFSIGNALED(status):
                self.kills += 1
                self.edit_work()
            elif os.waitstatus_to_exitcode(status) != DRIFTED:
                assert status == 0, status
                return
        raise NeverEnding

    def be_impatient(self, child: int) -> None:
        """Start two more runs while the first certainly works: both are refused."""
        os.kill(child, signal.SIGSTOP)
        os.waitpid(child, os.WUNTRACED) if _is_running(child) else None
        if _is_running(child) and is_process_lock_held(
            Workspace(root=self.workspace).orchestrator_lock()
        ):
            others = [self.second() for _ in range(2)]
            codes = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in others]
            assert codes == [REFUSED, REFUSED], codes
            self.refused += 2
        os.kill(child, signal.SIGCONT)

    def second(self) -> int:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                world.orchestrator(self.workspace).run([load_task(self.workspace, "T-1")])
            except RunHeld:
                code = REFUSED
            except BaseException:  # noqa: BLE001 - reported, then the child ends whatever it was
                sys.excepthook(*sys.exc_info())
            os._exit(code)
        return child

    def edit_work(self) -> None:
        """Change what agents wrote, once none of them can write any more."""
        started = [
            each
            for ledger in (self.workspace / "events").glob("*.ndjson")
            for each in _lines(ledger)
            if each["kind"] == "agent.started"
        ]
        end_orphans([AgentRecord.from_fields(each) for each in started])
        if self.place.source.random() < 0.5:
            task = self.place.source.choice(world.TASKS)
            if (self.workspace / f"src/{task}.txt").exists():
                self.changed[task] += 1
                self.write(f"src/{task}.txt")

    def write(self, name: str) -> None:
        path = self.workspace / name
        own = path.read_text() if path.exists() else ""
        self.written.pop(own, None)  # The person overwrites what the person wrote.
        self.edits += 1
        text = f"by hand {self.edits}\n"
        path.write_text(text)
        self.written[text] = name

    def compare(self) -> None:
        """Find all that a person wrote, nothing done twice, and nothing that no reviewer saw."""
        (ledger,) = (each for each in (self.workspace / "events").iterdir() if _lines(each))
        records = _lines(ledger)
        self.check_hands()
        self.check_counts(records)
        late = self.written_late(records)
        verified = world.orchestrator(self.workspace).verify(ledger.stem)
        assert {each.path for each in verified.findings} == late.keys(), (verified, late)
        assert verified.is_as_approved == (not late), verified
        found = {
            path.name: late.get(f"src/{path.name}", hashlib.sha256(path.read_bytes()).hexdigest())
            for path in sorted((self.workspace / "src").iterdir())
        }
        files = [(name, digest) for name, digest in found.items() if digest]
        final = hashlib.sha256(repr(files).encode())
        seen = (self.workspace / "state/counts/seen").read_text().splitlines()
        assert final.hexdigest() in seen, "no reviewer saw what is delivered"

    def written_late(self, records: list[dict[str, Any]]) -> dict[str, str]:
        """Return what the person wrote after the last look at the files: it is not delivered.

        That look comes after the last receipt. The value is the digest of what was delivered
        instead, empty if that was no file.
        """
        tree = WorkspaceTree(
            Workspace(root=self.workspace), files=SystemFiles(), clock=SystemClock()
        )
        delivered = tree.manifest(records[-1]["tree"]) or {}
        late = dict[str, str]()
        for name in self.written.values():
            path = self.workspace / name
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
            if digest and delivered.get(name, ("", 0))[0] != digest:
                late[name] = delivered.get(name, ("", 0))[0]
                received = max(each["at"] for each in records if each["kind"] == "receipt")
                since = datetime.fromisoformat(received).timestamp()
                # The kernel's time of a file is that of its last tick.
                assert path.stat().st_mtime > since - 0.1, (name, received)
        return late

    def check_hands(self) -> None:
        folders = [self.workspace / "src", self.workspace / "state" / "kept"]
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        found = {path.read_bytes() for path in files}
        lost = {text: name for text, name in self.written.items() if text.encode() not in found}
        assert not lost, lost

    def check_counts(self, records: list[dict[str, Any]]) -> None:
        commands = {each["step"]: each["command"] for each in records if each["kind"] == "command"}
        redone = [each["step"] for each in records if each["kind"] == "redo"]
        done = world.counts(self.workspace)
        for step, command in commands.items():
            acts = done[command["idempotency_key"]]
            # A result whose file is gone cannot be answered from what was kept.
            excused = redone.count(step)
            excused += self.changed[command["task_id"]] if command["expected_outputs"] else 0
            assert acts.count("kept") <= 1 + excused, (step, command["action"], acts)
        self.repeated = sum(acts.count("started") - 1 for acts in done.values())


def _is_running(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _lines(ledger: Path) -> list[dict[str, Any]]:
    lines = ledger.read_bytes().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def main(kills: int, seed: int, directory: Path) -> None:
    source = random.Random(seed)
    summary = {"kills": 0, "runs": 0, "edits": 0, "refused": 0, "repeated": 0, "commands": 0}
    while summary["kills"] < kills:
        summary["runs"] += 1
        assert summary["runs"] <= 3 * kills, "it is seldom killed"
        story = EditedRun(Place("", directory / str(summary["runs"]), source))
        story.rage(min(kills - summary["kills"], 15))
        story.compare()
        summary["kills"] += story.kills
        summary["edits"] += story.edits
        summary["refused"] += story.refused
        summary["repeated"] += story.repeated
        summary["commands"] += len(world.counts(story.workspace))
        shutil.rmtree(story.workspace)
    json.dump(summary, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
