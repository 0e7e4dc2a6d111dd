"""Kill one process of the Lab after another at one crash point, and look at what is left each time.

Run as `python -m tests.system.lab_matrix POINT TIMES SEED DIRECTORY`. It forks from a parent that
has everything imported. Every second life begins with a request that another process announced and
did not live to write, so that recovery is killed too. Prints a JSON summary; a broken promise is an
AssertionError and exit code 1.
"""

import json
import random
import sys
from collections import Counter
from pathlib import Path

from onceward.journal import Journal
from onceward.lab.client import FeedbackClient
from onceward.lab.lab import Lab
from onceward.lab.models import NewFeedback
from onceward.lab.records import Experiment
from tests.system.lives import Ack, live_and_die, scenario_for
from tests.unit.lab.labs import (
    by_request,
    make_experiment,
    make_lab,
    make_run,
    paths_in,
    submission,
)

#: How many passes of the point a child may make before it dies.
PASSES_MAX = 6
#: Sides of every comparison, and so entries of every submission.
SIDES = 3
UNFINISHED = "lab.step.after_intent:1:kill"


class Importing:
    """A run id that was answered stays the answer, and a place has one run per content."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.told: dict[str, str] = {}
        directory.mkdir(parents=True, exist_ok=True)

    def prepare(self, life: int) -> None:
        """Nothing has to be there."""

    def work(self, life: int, ack: Ack) -> None:
        lab = make_lab(self.directory)
        for number in range(1000):
            name = f"{life}-{number}"
            run = lab.import_run(str(make_run(self.directory, name)))
            ack(json.dumps([name, run.run_id]))

    def check(self, acks: list[str], _: random.Random) -> None:
        self.told.update(json.loads(each) for each in acks)
        lab = make_lab(self.directory)
        for place in (self.directory / "runs").iterdir():
            run_id = lab.import_run(str(place)).run_id
            assert run_id == self.told.setdefault(place.name, run_id), place
        lines = Journal(lab.paths.runs).read().items
        places = Counter(each["artifactsDirRealpath"] for each in lines)
        assert set(places.values()) <= {1}, places


class Creating(Importing):
    """An experiment whose id was answered is there."""

    def work(self, _: int, ack: Ack) -> None:
        lab = make_lab(self.directory)
        for _ in range(1000):
            ack(make_experiment(lab, self.directory).experiment_id)

    def check(self, acks: list[str], _: random.Random) -> None:
        lab = make_lab(self.directory)
        for experiment_id in acks:
            assert lab.experiment(experiment_id).experiment_id == experiment_id


class Submitting(Importing):
    """Each request has exactly one set of entries, and one answer however often it is asked."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.experiments: dict[str, Experiment] = {}

    def prepare(self, life: int) -> None:
        lab = make_lab(self.directory)
        for number in range(PASSES_MAX + 1):
            name = f"{life}-submit-{number}"
            self.experiments[name] = make_experiment(lab, self.directory, SIDES)
        if life % 2:
            live_and_die(lambda _, ack: self.leave(life, ack), UNFINISHED, life)

    def leave(self, life: int, ack: Ack) -> None:
        """Die with a request announced."""
        name = f"{life}-submit-{PASSES_MAX}"
        self.send(make_lab(self.directory), name)
        ack("never")

    def send(self, lab: Lab, name: str) -> str:
        if name not in self.experiments:
            return json.dumps(lab.add_feedback(NewFeedback(notes=name), name).body)
        experiment = self.experiments[name]
        answer = lab.submit(experiment.experiment_id, submission(experiment), name)
        return json.dumps(answer.body)

    def work(self, life: int, ack: Ack) -> None:
        lab = make_lab(self.directory)
        for number in range(PASSES_MAX):
            for kind in ("feedback", "submit"):
                name = f"{life}-{kind}-{number}"
                ack(json.dumps([name, self.send(lab, name)]))
        # A point in the recovery is passed when there is something to recover, and only then.
        live_and_die(lambda _, ack: self.leave(life, ack), UNFINISHED, life)
        lab.recover()

    def check(self, acks: list[str], source: random.Random) -> None:
        self.told.update(json.loads(each) for each in acks)
        lab = make_lab(self.directory)
        names = [
            *self.experiments,
            *(each.replace("submit", "feedback") for each in self.experiments),
        ]
        for name in source.sample(names, len(names)):
            answer = self.send(lab, name)
            assert answer == self.told.setdefault(name, answer), name
        counts = by_request(lab)
        assert counts == {name: SIDES if name in self.experiments else 1 for name in self.told}, (
            counts
        )
        for experiment in self.experiments.values():
            assert lab.experiment(experiment.experiment_id).is_done
        decided = Journal(lab.paths.experiments)
        lines = [line.raw for line in decided.lines(limit=10**6)]
        assert len(lines) == len({*lines}) == 2 * len(self.experiments), len(lines)


class Following(Importing):
    """An agent sees every entry, and none twice but the one at which it died."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.journal = Journal(paths_in(directory).feedback)
        self.seen: list[str] = []

    def prepare(self, life: int) -> None:
        stamp = {"createdAt": "2026-02-06T00:00:00.000Z"}
        self.journal.append(*({"id": f"{life}-{each}", **stamp} for each in range(PASSES_MAX + 1)))

    def work(self, _: int, ack: Ack) -> None:
        cursor = self.directory / "agent.json"
        with FeedbackClient(self.journal.path, cursor=cursor) as client:
            for entry in client.available():
                ack(entry["id"])

    def check(self, acks: list[str], _: random.Random) -> None:
        if self.seen and acks and acks[0] == self.seen[-1]:
            acks = acks[1:]  # It was being worked on when the process died.
        self.seen += acks
        written = [json.loads(line.raw)["id"] for line in self.journal.lines(limit=10**6)]
        assert self.seen == written[: len(self.seen)], (self.seen, written)


SCENARIOS: dict[str, type[Importing]] = {
    "lab.client.": Following,
    "lab.import.": Importing,
    "lab.experiment.": Creating,
    "lab.step.": Submitting,
}


def main(point: str, times: int, seed: int, directory: Path) -> None:
    source = random.Random(seed)
    acknowledged = 0
    scenario = scenario_for(point, SCENARIOS)(directory / "0")
    for life in range(times):
        if life % 10 == 0:
            scenario = scenario_for(point, SCENARIOS)(directory / str(life))
        scenario.prepare(life)
        recovering = point == "lab.step.before_roll_forward"
        passes = 1 if recovering else source.randint(1, PASSES_MAX)
        acks = live_and_die(scenario.work, f"{point}:{passes}:kill", life)
        acknowledged += len(acks)
        scenario.check(acks, source)
    json.dump({"point": point, "kills": times, "acknowledged": acknowledged}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
