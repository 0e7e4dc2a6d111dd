"""Seeding: fills a home with a small hand-made story, through the library itself.

`fill` makes a home for every screen: cursors and workers of the last hour, requests that were
done, failed and fell silent, alerts, memory, conversations, a run that was killed and resumed,
and runs to compare. `Home` says where each part lies.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.dispatch.models import DeliveryState
from onceward.errors import OutcomeUnknown
from onceward.lab.request_models import NewExperiment, NewVariant
from onceward.memory.client import Memory
from onceward.workers.alert_models import DEFAULT_RULES
from onceward.workers.alerts import AlertEvaluator
from tests.support import scripted_workspace as agents
from tests.support.console_history import HOSTILE, STEP_SECONDS, STEPS, Hour, PastClock
from tests.support.dispatch_store import World
from tests.support.lab_material import reports
from tests.support.labs import make_lab, make_run, submission

ROOT = Path(__file__).parents[2]
#: Dies when the builder has answered, before the orchestrator recorded the answer.
DEATH = "orchestrator.answer.before_record:2:kill"
#: Begins a run, or goes on with it.
GO_ON = """import sys
from pathlib import Path
from tests.support.scripted_workspace import resume
resume(Path(sys.argv[1]))
"""
SAID = ("hello", "what is our uptime?", HOSTILE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Home:
    """One directory with everything that a console looks at."""

    path: Path

    @property
    def store(self) -> str:
        return f"sqlite:///{self.path / 'onceward.db'}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of every process that belongs here."""
        return {
            **os.environ,
            "ONCEWARD_HOME": str(self.path),
            "ONCEWARD_STORE": self.store,
            "CM_LAB_ROOT": str(self.path / "lab"),
            "CM_FEEDBACK_STORE_PATH": str(self.path / "feedback" / "feedback.jsonl"),
        }

    def open(self) -> Onceward:
        return open_handle(self.store)


def fill(path: Path) -> Home:
    """Fill a home with the whole story."""
    home = Home(path=path)
    fill_cursors(home)
    with closing(home.open()) as ow:
        fill_requests(ow)
        fill_memory(ow)
    fill_conversations(home)
    fill_runs(home)
    fill_lab(home)
    return home


def fill_cursors(home: Home) -> None:
    """Tell the last hour of the shop's workers, and raise the alerts that it gives reason for."""
    home.path.mkdir(parents=True, exist_ok=True)
    clock = PastClock(STEPS * STEP_SECONDS)
    with closing(open_handle(home.store, clock=clock)) as ow:
        Hour(ow, clock).tell()
        watcher = AlertEvaluator(ow, DEFAULT_RULES)
        watcher.evaluate()
        watcher.release()


def fill_requests(ow: Onceward) -> None:
    """Make outcomes in every state that needs a decision, and in some that do not."""

    @ow.once(scope="billing.charge", key=lambda order, _: order)
    def charge(order: str, cents: int) -> dict[str, object]:
        if cents < 0:
            message = f"cannot charge {cents}"
            raise ValueError(message)
        receipt = ow.effect("card", lambda: {"id": f"ch_{order}", "cents": cents})
        ow.effect("mail", lambda: _sent(order))
        return {"order": order, "receipt": receipt}

    for number in range(1, 31):
        charge(f"order-{number:04}", 100 * number)
    with suppress(ValueError):
        charge("order-refused", -5)
    for order in ("order-silent", f"order-{HOSTILE}"):
        with suppress(OutcomeUnknown):
            charge(order, 4200)
    options = {"fingerprint": "f", "owner": "alpha/4711/1", "lease_seconds": 3600.0}
    ow.outcomes.claim("billing.refund", "order-0007", **options)  # type: ignore[arg-type]  # as named
    ow.outcomes.claim("billing.refund", "order-0009", **{**options, "lease_seconds": 0.001})  # type: ignore[arg-type]  # as named


def _sent(order: str) -> str:
    if order in ("order-silent", f"order-{HOSTILE}"):
        message = "the connection broke before the answer came"
        raise OutcomeUnknown(message, fix="ask the provider")
    return "sent"


def fill_memory(ow: Onceward) -> None:
    """Remember a small graph of facts, one of them deleted, one of them hostile."""
    memory = Memory(
        ow, validation="lenient", source="claude-code", run="run_1", repo="shop", branch="main"
    )
    memory.create_entities(
        [
            {"name": name, "entityType": kind, "observations": [text]}
            for name, kind, text in (
                ("File#src/billing.py", "File", "charges a card once per order"),
                ("File#src/mail.py", "File", "sends receipts"),
                ("Concept#idempotency", "Concept", "the same request has the same outcome"),
                ("Tool#pytest", "Tool", "runs the tests"),
                ("Concept#old plan", "Concept", "was given up"),
                ("Note#hostile", "Note", HOSTILE),
            )
        ]
    )
    memory.create_relations(
        [
            {"from": start, "to": end, "relationType": kind}
            for start, end, kind in (
                ("File#src/billing.py", "Concept#idempotency", "ABOUT"),
                ("File#src/billing.py", "File#src/mail.py", "USES"),
                ("File#src/mail.py", "Tool#pytest", "USES"),
            )
        ]
    )
    memory.record_error(
        "ConnectionError: the mail provider does not answer", kind="network", detector="pytest"
    )
    memory.delete_entities(["Concept#old plan"])


def fill_conversations(home: Home) -> None:
    """Let people talk in three groups: one answered, one given up, one paused."""
    world = World(home.store, home.path)
    try:
        for name in ("team", "broken", "paused"):
            world.group(name)
        world.dispatcher.groups.set("paused", is_paused=True)
        world.start()
        for number, text in enumerate(SAID, 1):
            world.tell(text, group="team")
            world.answered(*SAID[:number], group="team")
        world.tell("!fail", group="broken")
        world.tell("hello?", group="paused")
        failed = DeliveryState.ROLLED_BACK
        world.ended(failed, failed, DeliveryState.DEAD, group="broken")
    finally:
        world.close()


def fill_runs(home: Home) -> None:
    """Kill a run in the middle and resume it: three commands, none done twice."""
    workspace = agents.build(home.path / "agents")
    command = [sys.executable, "-c", GO_ON, str(workspace)]
    dying = {**home.environment, "ONCEWARD_CRASH": DEATH}
    assert subprocess.run(command, cwd=ROOT, env=dying, check=False).returncode == -signal.SIGKILL
    subprocess.run(command, cwd=ROOT, env=home.environment, check=True)


def script(name: str) -> dict[str, object]:
    """Return what an agent made of a topic."""
    scenes = {
        "one": ["A harbour at dawn.", "Forty ships, and one that is not on any list."],
        "two": ["One ship is missing.", "The harbour knows of forty. Count them again."],
    }[name]
    return {"meta": {"topic": f"Ships {name}"}, "scenes": scenes}


def fill_lab(home: Home) -> None:
    """Compare two runs, one comparison decided and one open."""
    lab = make_lab(home.path)
    sides = [
        lab.import_run(str(make_run(home.path, name, "", script=script(name), **reports(*numbers))))
        for name, numbers in {"one": (60, 90, 0.5, 0.5), "two": (80, 30, 0.75, 0.25)}.items()
    ]
    for name in ("Hooks", "Endings"):
        variants = (NewVariant(runId=sides[1].run_id, label="two"),)
        made = lab.create_experiment(
            NewExperiment(baselineRunId=sides[0].run_id, variants=variants, name=name)
        )
        if name == "Hooks":
            lab.submit(made.experiment_id, submission(made), "seeded")
