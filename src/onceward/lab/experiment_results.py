"""Experiment results: wins by variant, confidence intervals, differences of metrics. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from onceward.lab.models import Experiment, LabRun
from onceward.lab.request_models import BASELINE

#: Minimum number of decisions before a result counts as meaningful.
DECISIONS_MIN: Final = 10
#: Standard deviations that hold 95 % of a normal distribution.
_Z: Final = 1.959964


@dataclass(frozen=True, kw_only=True, slots=True)
class Delta:
    """How a metric of a variant differs from its baseline's."""

    metric: str
    #: Variant minus baseline.
    mean: float
    #: Number of pairs in which both values are known.
    n: int


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantStats:
    """Wins, losses and metrics of one variant, over all experiments of one name."""

    #: Name of the experiments; None for those without one.
    experiment: str | None
    label: str
    n: int
    wins: int
    losses: int
    ties: int
    both_bad: int
    #: Share of wins among wins and losses, and its 95 % interval; None without either.
    win_rate: float | None
    low: float | None
    high: float | None
    #: Whether there are at least DECISIONS_MIN decisions.
    enough: bool
    deltas: tuple[Delta, ...]
    #: Ids of the experiments that were counted.
    experiment_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentResults:
    """The results of all experiments, by name and variant."""

    #: Experiments that have a decision.
    experiments: int
    #: Experiments that are done but have no outcome.
    undecided: int
    standings: tuple[VariantStats, ...]


@dataclass(kw_only=True, slots=True)
class _Tally:
    wins: int = 0
    losses: int = 0
    ties: int = 0
    both_bad: int = 0
    deltas: dict[str, list[float]] = field(default_factory=dict)
    experiment_ids: list[str] = field(default_factory=list)


def summarise(decided: Iterable[tuple[Experiment, Mapping[str, LabRun]]]) -> ExperimentResults:
    """Count the decided experiments; each comes with its known runs."""
    tallies: dict[tuple[str | None, str, bool], _Tally] = {}
    counted = undecided = 0
    for experiment, runs in decided:
        outcome = _outcome(experiment)
        if outcome is None:
            undecided += 1
            continue
        counted += 1
        sides = {BASELINE: BASELINE, **{v.variant_id: v.label for v in experiment.variants}}
        for variant_id, label in sides.items():
            # A variant may have the label of the baseline, and is counted separately.
            key = (experiment.name, label, variant_id == BASELINE)
            tally = tallies.setdefault(key, _Tally())
            tally.experiment_ids.append(experiment.experiment_id)
            _count(tally, outcome, variant_id, experiment)
            _compare(tally, runs, experiment, variant_id)
    standings = [_variant_stats(name, label, tally) for (name, label, _), tally in tallies.items()]
    return ExperimentResults(experiments=counted, undecided=undecided, standings=tuple(standings))


def wilson(wins: int, n: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of a share; valid for small n."""
    assert 0 <= wins <= n, (wins, n)
    assert n > 0, n
    share, z2 = wins / n, _Z * _Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    # Rounding must not exclude the share itself.
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def _outcome(experiment: Experiment) -> str | None:
    if experiment.outcome in ("winner", "tie", "both_bad"):
        return experiment.outcome
    return "winner" if experiment.winner else None


def _count(tally: _Tally, outcome: str, variant_id: str, experiment: Experiment) -> None:
    if outcome == "tie":
        tally.ties += 1
    elif outcome == "both_bad":
        tally.both_bad += 1
    elif experiment.winner and experiment.winner.variant_id == variant_id:
        tally.wins += 1
    else:
        tally.losses += 1


def _compare(
    tally: _Tally, runs: Mapping[str, LabRun], experiment: Experiment, variant_id: str
) -> None:
    run = runs.get(experiment.run_of(variant_id) or "")
    baseline = runs.get(experiment.baseline_run_id)
    if variant_id == BASELINE or run is None or baseline is None:
        return
    before = baseline.metrics.numbers()
    for metric, value in run.metrics.numbers().items():
        other = before.get(metric)
        if other is not None:
            tally.deltas.setdefault(metric, []).append(value - other)


def _variant_stats(experiment: str | None, label: str, tally: _Tally) -> VariantStats:
    decisions = tally.wins + tally.losses
    low, high = wilson(tally.wins, decisions) if decisions else (None, None)
    return VariantStats(
        experiment=experiment,
        label=label,
        n=decisions + tally.ties + tally.both_bad,
        wins=tally.wins,
        losses=tally.losses,
        ties=tally.ties,
        both_bad=tally.both_bad,
        win_rate=tally.wins / decisions if decisions else None,
        low=low,
        high=high,
        enough=decisions >= DECISIONS_MIN,
        deltas=tuple(
            Delta(metric=metric, mean=round(math.fsum(values) / len(values), 4), n=len(values))
            for metric, values in tally.deltas.items()
        ),
        experiment_ids=tuple(tally.experiment_ids),
    )
