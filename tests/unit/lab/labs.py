"""Labs to test with: a root in a temporary directory, and runs to judge."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from onceward.journal import Record
from onceward.lab.bodies import NewExperiment, NewVariant, RunJudgement, Submission
from onceward.lab.lab import Lab
from onceward.lab.models import Experiment
from onceward.lab.paths import LabPaths
from onceward.lab.sessions import open_session


def paths_in(directory: Path) -> LabPaths:
    return LabPaths(root=directory / "lab", feedback=directory / "feedback" / "feedback.jsonl")


def make_lab(directory: Path, session_id: str | None = None, **options: Any) -> Lab:
    """Open a Lab on the root below a directory, as one process does."""
    paths = paths_in(directory)
    seams = {name: options[name] for name in ("files", "clock", "ids") if name in options}
    session = open_session(paths, session_id, **seams)
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


def by_request(lab: Lab) -> Counter[str]:
    """Return how many entries each request id has."""
    return Counter(each["extra"]["requestId"] for each in feedback_of(lab))
