"""Replays: whether what another program stored for a request id is what is asked now.

Its lines hold no fingerprint, so the entries and the decision that they name are compared, after
the normalisation that both programs apply. Pure: knows records, reads no files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onceward.errors import NotCanonical
from onceward.journal import Record
from onceward.keys import canonical_json
from onceward.lab.bodies import Answers, Judgement, NewFeedback, Submission
from onceward.lab.models import Experiment, Run


def is_same_feedback(new: NewFeedback, entry: Record, run: Run | None) -> bool:
    """Say whether an entry is what this request would become."""
    # The run of a variant is known without being named.
    is_named = new.runId is not None or new.variantId is None
    topics = (new.topic, run.topic if run else None)
    return (
        (not is_named or new.runId == entry.get("runId"))
        and new.experimentId == entry.get("experimentId")
        and new.variantId == entry.get("variantId")
        and entry.get("topic") in (topics if new.topic is None or run else (new.topic,))
        and _says_same(new, new.answers, entry)
    )


def is_same_submission(
    submission: Submission, experiment: Experiment, entries: Sequence[Record]
) -> bool:
    """Say whether these entries and this decision are what this request would become."""
    sides = {(each.get("runId"), each.get("variantId")): each for each in entries}
    judged = [(sides.get((each.runId, each.variantId)), each) for each in submission.perRun]
    return (
        len(entries) == len(sides) == len(judged)
        and all(entry and _says_same(each, submission.answers, entry) for entry, each in judged)
        and _is_same_decision(submission, experiment)
    )


def _is_same_decision(submission: Submission, experiment: Experiment) -> bool:
    winner = experiment.winner
    chosen = winner.variant_id if winner else None
    outcome = experiment.outcome or ("winner" if winner else None)
    # The original Lab keeps a reason only with a winner, and no outcome.
    is_reason = winner is None or (submission.reason or "").strip() == (winner.reason or "").strip()
    return (
        submission.winnerVariantId == chosen and submission.outcome in (None, outcome) and is_reason
    )


def _says_same(judgement: Judgement, answers: Answers | None, entry: Record) -> bool:
    rated = judgement.ratings.to_record() if judgement.ratings else None
    asked = _normal(rated, judgement.notes, judgement.tags, answers)
    stored = _normal(*(entry.get(name) for name in ("ratings", "notes", "tags", "answers")))
    try:
        return canonical_json(asked) == canonical_json(stored)
    except NotCanonical:  # Another program's entry may hold anything.
        return False


def _normal(ratings: Any, notes: Any, tags: Any, answers: Any) -> Mapping[str, Any]:  # noqa: ANN401 - whatever an entry holds
    """Return a judgement without white space around texts, and without what is empty."""
    kept = [str(each).strip() for each in tags] if isinstance(tags, list | tuple) else []
    return {
        "ratings": ratings or None,
        "notes": (notes.strip() or None) if isinstance(notes, str) else notes,
        "tags": [each for each in kept if each],
        "answers": answers or None,
    }
