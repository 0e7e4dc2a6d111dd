"""The Lab under kill -9: one process after another, what was answered, and what is in its files.

Every second life begins with a request that another process announced and did not live to write.
"""

import json
from collections import Counter
from collections.abc import Sequence

from onceward.journal import Journal
from onceward.lab.client import FeedbackClient
from onceward.lab.lab import Lab
from onceward.lab.models import Experiment
from onceward.lab.request_models import NewFeedback
from tests.support.killed_processes import Ack, Life, Place, Scenario, live_and_die
from tests.support.labs import by_request, make_experiment, make_lab, make_run, paths_in, submission

#: Requests of each kind that a life makes, and requests that it rolls forward.
ROUNDS, LEFT = 3, 3
#: Sides of every comparison, and so entries of every submission.
SIDES = 3
UNFINISHED = "lab.request.after_intent:1:kill"


class Importing(Scenario):
    """A run id that was answered stays the answer, and a place has one run per content."""

    passes_max = 3

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.acknowledged: dict[str, str] = {}

    def work(self, life: int, ack: Ack) -> None:
        lab = make_lab(self.directory)
        for number in range(1000):
            name = f"{life}-{number}"
            run = lab.import_run(str(make_run(self.directory, name)))
            ack(json.dumps([name, run.run_id]))

    def check(self, lives: Sequence[Life]) -> None:
        self.acknowledged.update(json.loads(ack) for life in lives for ack in life.acks)
        self.look(make_lab(self.directory))

    def look(self, lab: Lab) -> None:
        runs = {each["runId"] for each in Journal(lab.paths.runs).read().items}
        assert {*self.acknowledged.values()} <= runs

    def settle(self, lives: Sequence[Life]) -> None:  # noqa: ARG002 - the shape
        lab = make_lab(self.directory)
        for place in (self.directory / "runs").iterdir():
            run_id = lab.import_run(str(place)).run_id
            assert run_id == self.acknowledged.setdefault(place.name, run_id), place
        lines = Journal(lab.paths.runs).read().items
        places = Counter(each["artifactsDirRealpath"] for each in lines)
        assert set(places.values()) <= {1}, places


class Creating(Scenario):
    """An experiment whose id was answered is there."""

    passes_max = 3

    def work(self, _: int, ack: Ack) -> None:
        lab = make_lab(self.directory)
        for _ in range(1000):
            ack(make_experiment(lab, self.directory).experiment_id)

    def check(self, lives: Sequence[Life]) -> None:
        lab = make_lab(self.directory)
        for experiment_id in (ack for life in lives for ack in life.acks):
            assert lab.experiment(experiment_id).experiment_id == experiment_id


class Submitting(Importing):
    """Each request has exactly one set of entries, and one answer however often it is asked."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.experiments: dict[str, Experiment] = {}

    def prepare(self, life: int) -> None:
        lab = make_lab(self.directory)
        for number in range(ROUNDS + LEFT + 1):
            name = f"{life}-submit-{number}"
            self.experiments[name] = make_experiment(lab, self.directory, SIDES)
        if life % 2:
            self.leave(life, ROUNDS + LEFT)

    def leave(self, life: int, number: int) -> None:
        """Let another process die with a request announced."""

        def announce(_: int, ack: Ack) -> None:
            self.send(make_lab(self.directory), f"{life}-submit-{number}")
            ack("never")

        live_and_die(announce, UNFINISHED, life)

    def send(self, lab: Lab, name: str) -> str:
        if name not in self.experiments:
            return json.dumps(lab.add_feedback(NewFeedback(notes=name), name).body)
        experiment = self.experiments[name]
        answer = lab.submit(experiment.experiment_id, submission(experiment), name)
        return json.dumps(answer.body)

    def work(self, life: int, ack: Ack) -> None:
        lab = make_lab(self.directory)
        for number in range(ROUNDS):
            for kind in ("feedback", "submit"):
                name = f"{life}-{kind}-{number}"
                ack(json.dumps([name, self.send(lab, name)]))
        # A point in the recovery is passed when there is something to recover, and only then.
        for number in range(ROUNDS, ROUNDS + LEFT):
            self.leave(life, number)
            lab.recover()

    def expected(self) -> dict[str, int]:
        """Return how many entries each request that was answered has."""
        return {name: SIDES if name in self.experiments else 1 for name in self.acknowledged}

    def look(self, lab: Lab) -> None:
        counts = by_request(lab)
        assert {name: counts[name] for name in self.acknowledged} == self.expected(), counts
        assert set(counts.values()) <= {1, SIDES}, counts

    def settle(self, lives: Sequence[Life]) -> None:  # noqa: ARG002 - the shape
        lab = make_lab(self.directory)
        names = [
            *self.experiments,
            *(each.replace("submit", "feedback") for each in self.experiments),
        ]
        for name in self.place.source.sample(names, len(names)):
            answer = self.send(lab, name)
            assert answer == self.acknowledged.setdefault(name, answer), name
        counts = by_request(lab)
        assert counts == self.expected(), counts
        for experiment in self.experiments.values():
            assert lab.experiment(experiment.experiment_id).is_done
        decided = Journal(lab.paths.experiments)
        lines = [line.raw for line in decided.lines(limit=10**6)]
        assert len(lines) == len({*lines}) == 2 * len(self.experiments), len(lines)


class Following(Scenario):
    """An agent sees every entry, and none twice but the one at which it died."""

    passes_max = 3

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.journal = Journal(paths_in(self.directory).feedback)

    def prepare(self, life: int) -> None:
        stamp = {"createdAt": "2026-02-06T00:00:00.000Z"}
        self.journal.append(*({"id": f"{life}-{each}", **stamp} for each in range(ROUNDS + 1)))

    def work(self, _: int, ack: Ack) -> None:
        cursor = self.directory / "agent.json"
        with FeedbackClient(self.journal.path, cursor=cursor) as client:
            for entry in client.available():
                ack(entry["id"])

    def check(self, lives: Sequence[Life]) -> None:
        seen: list[str] = []
        self.repeated = 0
        for life in lives:
            # It was being worked on when the process died.
            again = life.acks[:1] == seen[-1:] and bool(seen)
            self.repeated += again
            seen += life.acks[again:]
        written = [json.loads(line.raw)["id"] for line in self.journal.lines(limit=10**6)]
        assert seen == written[: len(seen)], (seen, written)


SCENARIOS: dict[str, type[Scenario]] = {
    "lab.client.": Following,
    "lab.import.": Importing,
    "lab.experiment.": Creating,
    "lab.request.": Submitting,
}
