"""Labs to test with: a root in a temporary directory, and runs to judge."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onceward.journal import Record
from onceward.lab.lab import Lab
from onceward.lab.lab_paths import LabPaths
from onceward.lab.models import Experiment
from onceward.lab.request_models import (
    NewExperiment,
    NewFeedback,
    NewVariant,
    RunJudgement,
    Submission,
)
from onceward.lab.sessions import open_session

#: So long that a write of it may be torn.
NOTES = "n" * 600


def paths_in(directory: Path) -> LabPaths:
    return LabPaths(root=directory / "lab", feedback=directory / "feedback" / "feedback.jsonl")


def make_lab(directory: Path, session_id: str | None = None, **options: Any) -> Lab:
    """Open a Lab on the root below a directory, as one process does."""
    paths = paths_in(directory)
    injected = {name: options[name] for name in ("files", "clock", "ids") if name in options}
    session = open_session(paths, session_id, **injected)
    return Lab(paths=paths, session=session, roots=[directory], **options)


def make_run(directory: Path, name: str = "a", topic: str = "cats", **files: object) -> Path:
    """Write a directory that can be imported; files by stem."""
    place = directory / "runs" / name
    place.mkdir(parents=True, exist_ok=True)
    for stem, content in {"script": {"meta": {"topic": topic}}, **files}.items():
        path, text = place / f"{stem.replace('_', '-')}.json", json.dumps(content)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)  # An unchanged file keeps its time, so that the run stays one.
    return place


def make_experiment(lab: Lab, directory: Path, sides: int = 2) -> Experiment:
    """Import runs and set up their comparison."""
    runs = [lab.import_run(str(make_run(directory, f"side{each}"))) for each in range(sides)]
    variants = tuple(NewVariant(runId=run.run_id) for run in runs[1:])
    return lab.create_experiment(NewExperiment(baselineRunId=runs[0].run_id, variants=variants))


def submission(experiment: Experiment, **fields: Any) -> Submission:
    """Choose the first variant, and say something of each side."""
    sides = [("baseline", experiment.baseline_run_id)]
    sides += [(each.variant_id, each.run_id) for each in experiment.variants]
    judged = tuple(RunJudgement(runId=run, variantId=side, notes=side) for side, run in sides)
    chosen = {"winnerVariantId": experiment.variants[0].variant_id, "reason": "clearer"}
    return Submission(**{**chosen, "perRun": judged, **fields})


def feedback_of(lab: Lab) -> list[Record]:
    """Return every entry in the file."""
    items, since = [], "0"
    while True:
        page = lab.poll(since)
        items += page.items
        if page.next_cursor == since:
            return items
        since = page.next_cursor


def say_and_decide_again(lab: Lab, experiment: Experiment, given: Mapping[str, Any]) -> list[str]:
    """Repeat both requests: the answers given before, and each entry once; return their ids."""
    said = lab.add_feedback(NewFeedback(notes=NOTES), "req-1")
    decided = lab.submit(experiment.experiment_id, submission(experiment), "req-2")
    assert said.body == given.get("req-1", said.body)
    assert decided.body == given.get("req-2", decided.body)
    expected = [said.body["feedbackId"], *decided.body["feedbackIds"]]
    # A torn write may keep its second half: then the first one is appended after it.
    assert sorted(each["id"] for each in feedback_of(lab)) == sorted(expected)
    return expected


def by_request(lab: Lab) -> Counter[str]:
    """Return how many entries each request id has."""
    return Counter(each["extra"]["requestId"] for each in feedback_of(lab))
