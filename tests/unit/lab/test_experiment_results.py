"""Experiment results: correct counts and confidence intervals."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceward.journal import Journal
from onceward.lab.experiment_results import DECISIONS_MIN, VariantStats, wilson
from onceward.lab.request_models import NewExperiment
from tests.support.labs import make_experiment, make_lab, make_run, submission


def test_the_interval_agrees_with_published_values() -> None:
    """Wilson's interval for 8 of 10 and its limits at nothing and all."""
    low, high = wilson(8, 10)
    assert (round(low, 4), round(high, 4)) == (0.4902, 0.9433)
    assert wilson(0, 5)[0] == 0
    assert wilson(5, 5)[1] == 1
    for n in range(1, 60):
        for wins in range(n + 1):
            low, high = wilson(wins, n)
            assert 0 <= low <= wins / n <= high <= 1


def test_wins_ties_and_deltas_are_counted_by_name_and_label(tmp_path: Path) -> None:
    """Every decision counts once for each side; metrics are variant minus baseline."""
    lab = make_lab(tmp_path)
    one = lab.import_run(str(make_run(tmp_path, "one", score={"overall": 0.5})))
    two = lab.import_run(str(make_run(tmp_path, "two", score={"overall": 0.75})))
    variants = [{"runId": two.run_id, "label": "calm"}]
    body = {"name": "tone", "baselineRunId": one.run_id, "variants": variants}
    outcomes = ["variant"] * 8 + ["baseline"] * 4 + ["tie", "tie", "both_bad", None]
    for outcome in outcomes:
        experiment = lab.create_experiment(NewExperiment.model_validate(body))
        winners = {"variant": experiment.variants[0].variant_id, "baseline": "baseline"}
        fields = {"winnerVariantId": winners.get(outcome or "")}
        if outcome in ("tie", "both_bad"):
            fields["outcome"] = outcome
        lab.submit(experiment.experiment_id, submission(experiment, **fields))
    lab.create_experiment(NewExperiment.model_validate(body))
    results = lab.results()
    assert (results.experiments, results.undecided) == (15, 1)
    standings = {each.label: each for each in results.standings}
    calm, baseline = standings["calm"], standings["baseline"]
    assert (calm.wins, calm.losses, calm.ties, calm.both_bad, calm.n) == (8, 4, 2, 1, 15)
    assert (baseline.wins, baseline.losses) == (4, 8)
    assert calm.experiment == "tone"
    assert calm.win_rate == pytest.approx(8 / 12)
    assert (calm.low, calm.high) == wilson(8, 12)
    assert calm.enough
    (delta,) = calm.deltas
    assert (delta.metric, delta.mean, delta.n) == ("proxyScoreOverall", 25, 15)
    assert baseline.deltas == ()


def test_a_variant_of_the_baselines_name_is_counted_by_itself(tmp_path: Path) -> None:
    """Another tool may have labelled it so; the two sides are two standings."""
    lab = make_lab(tmp_path)
    experiment = make_experiment(lab, tmp_path)
    record = experiment.to_record()
    record["variants"][0]["label"] = "baseline"
    Journal(lab.paths.experiments).append(record)
    lab.submit(experiment.experiment_id, submission(experiment))
    assert sorted((each.wins, each.losses) for each in lab.results().standings) == [(0, 1), (1, 0)]


def test_a_few_decisions_are_not_enough(tmp_path: Path) -> None:
    """Below the threshold the results name no winner."""
    lab = make_lab(tmp_path)
    one = lab.import_run(str(make_run(tmp_path, "one")))
    two = lab.import_run(str(make_run(tmp_path, "two")))
    body = {"baselineRunId": one.run_id, "variants": [{"runId": two.run_id}]}

    def decide() -> VariantStats:
        experiment = lab.create_experiment(NewExperiment.model_validate(body))
        lab.submit(experiment.experiment_id, submission(experiment))
        return lab.results().standings[-1]

    for _ in range(DECISIONS_MIN - 1):
        assert not decide().enough
    assert decide().enough
    assert lab.results().standings[-1].label == "variant 1"
    assert make_lab(tmp_path / "empty").results().standings == ()
