"""The Lab on a disk that loses its power between any two operations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceward.journal import Record
from onceward.lab.models import Experiment
from onceward.lab.request_models import NewFeedback
from onceward.system import Files, Ids, SeededRandomness
from onceward.testing import Acks, CrashFiles, run_with_crash_at_every_step
from onceward.testing.crash_states import STATES_MAX
from tests.support.labs import (
    NOTES,
    feedback_of,
    make_experiment,
    make_lab,
    make_run,
    say_and_decide_again,
    submission,
)

Acknowledged = tuple[str, Any]


@pytest.mark.prove
def test_what_was_answered_is_there_and_a_retry_changes_nothing(
    tmp_path: Path, prove: bool, soak: bool
) -> None:
    """A crash before every operation of import, feedback and submit; then everything once more."""
    make_run(tmp_path, "side0")
    make_run(tmp_path, "side1")
    experiments: dict[str, Experiment] = {}

    def scenario(files: Files, acks: Acks[Acknowledged]) -> None:
        ids = Ids(SeededRandomness(7))
        lab = make_lab(tmp_path, "lab_one", files=files, ids=ids)
        experiment = make_experiment(lab, tmp_path)
        experiments["it"] = experiment
        for run_id in experiment.run_ids:
            acks.ack(("run", run_id))
        acks.ack(("experiment", experiment.experiment_id))
        one = lab.add_feedback(NewFeedback(notes=NOTES), "req-1")
        acks.ack(("req-1", one.body))
        two = lab.submit(experiment.experiment_id, submission(experiment), "req-2")
        acks.ack(("req-2", two.body))

    def check(files: CrashFiles, acks: Acks[Acknowledged]) -> None:
        acknowledged = dict(acks)
        lab = make_lab(tmp_path, files=files, ids=Ids(SeededRandomness(8)))
        assert_there(lab.poll().items, acknowledged)
        for name, value in acks:
            if name == "run":
                assert lab.run(value).run.run_id == value
        if "experiment" not in acknowledged:
            return
        experiment = experiments["it"]
        say_and_decide_again(lab, experiment, acknowledged)
        assert lab.experiment(experiment.experiment_id).is_done

    def assert_there(items: list[Record], acknowledged: dict[str, Any]) -> None:
        found = [each["id"] for each in items]
        wanted = [acknowledged["req-1"]["feedbackId"]] if "req-1" in acknowledged else []
        wanted += acknowledged["req-2"]["feedbackIds"] if "req-2" in acknowledged else []
        assert sorted(each for each in found if each in wanted) == sorted(wanted)

    def start() -> CrashFiles:
        files = CrashFiles()
        files.make_directories(tmp_path)
        return files

    steps = states = 0
    for seed in range(100 if soak else 10 if prove else 1):
        count = run_with_crash_at_every_step(
            scenario, check, start=start, seed=seed, states_max=STATES_MAX if prove or soak else 2
        )
        steps, states = count.steps, states + count.states
    assert steps > 60
    assert states > (30_000 if soak else 3000 if prove else 100)


def test_unsynced_entries_of_a_dead_process_are_synced_on_completion(
    tmp_path: Path,
) -> None:
    """They are in the file but not on disk: only a sync makes the end of the request true."""
    files = CrashFiles()
    files.make_directories(tmp_path)
    lab = make_lab(tmp_path, "lab_one", files=files)
    lab.add_feedback(NewFeedback(notes="before"), "req-0")

    def die(what: str, _: int) -> None:
        if what.startswith("sync") and "feedback.jsonl" in what:
            raise KeyboardInterrupt

    files.on_operation = die
    with pytest.raises(KeyboardInterrupt):
        lab.add_feedback(NewFeedback(notes="mine"), "req-1")
    next_life = files.killed()
    other = make_lab(tmp_path, "lab_two", files=next_life)
    assert other.add_feedback(NewFeedback(notes="mine"), "req-1").replayed
    for disk in next_life.crashes(limit=200):
        later = make_lab(tmp_path, files=disk)
        later.recover()
        names = [each["notes"] for each in feedback_of(later)]
        assert names == ["before", "mine"], disk.description
