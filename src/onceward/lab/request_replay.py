"""Request replay: check whether a stored response matches a request that repeats its id.

Responses recorded by the original Lab have no fingerprint, so their entries and decision are
compared, after the normalisation that both programs apply. Pure: reads no file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onceward.errors import NotCanonical
from onceward.journal import Record
from onceward.keys import canonical_json
from onceward.lab.models import Experiment, LabRun
from onceward.lab.request_models import Answers, Judgement, NewFeedback, Submission


def is_same_feedback(new: NewFeedback, entry: Record, run: LabRun | None) -> bool:
    """Return whether an entry equals the one that this request would create."""
    # With a variant, the run may be omitted.
    is_named = new.runId is not None or new.variantId is None
    topics = (new.topic, run.topic if run else None)
    return (
        (not is_named or new.runId == entry.get("runId"))
        and new.experimentId == entry.get("experimentId")
        and new.variantId == entry.get("variantId")
        and entry.get("topic") in (topics if new.topic is None or run else (new.topic,))
        and _is_same_judgement(new, new.answers, entry)
    )


def is_same_submission(
    submission: Submission, experiment: Experiment, entries: Sequence[Record]
) -> bool:
    """Return whether entries and decision equal those that this request would create."""
    sides = {(each.get("runId"), each.get("variantId")): each for each in entries}
    judged = [(sides.get((each.runId, each.variantId)), each) for each in submission.perRun]
    return (
        len(entries) == len(sides) == len(judged)
        and all(
            entry and _is_same_judgement(each, submission.answers, entry) for entry, each in judged
        )
        and _is_same_decision(submission, experiment)
    )


def _is_same_decision(submission: Submission, experiment: Experiment) -> bool:
    winner = experiment.winner
    chosen = winner.variant_id if winner else None
    outcome = experiment.outcome or ("winner" if winner else None)
    # The original Lab stores a reason only with a winner, and stores no outcome.
    is_reason = winner is None or (submission.reason or "").strip() == (winner.reason or "").strip()
    return (
        submission.winnerVariantId == chosen and submission.outcome in (None, outcome) and is_reason
    )


def _is_same_judgement(judgement: Judgement, answers: Answers | None, entry: Record) -> bool:
    rated = judgement.ratings.to_record() if judgement.ratings else None
    requested = _normal(rated, judgement.notes, judgement.tags, answers)
    stored = _normal(*(entry.get(name) for name in ("ratings", "notes", "tags", "answers")))
    try:
        return canonical_json(requested) == canonical_json(stored)
    except NotCanonical:  # Another program's entry may hold anything.
        return False


def _normal(ratings: Any, notes: Any, tags: Any, answers: Any) -> Mapping[str, Any]:  # noqa: ANN401 - whatever an entry holds
    """Return a judgement with texts trimmed and empty values removed."""
    kept = [str(each).strip() for each in tags] if isinstance(tags, list | tuple) else []
    return {
        "ratings": ratings or None,
        "notes": (notes.strip() or None) if isinstance(notes, str) else notes,
        "tags": [each for each in kept if each],
        "answers": answers or None,
    }
