"""Judging: what a judgement must hold to be accepted, and the entries that it becomes.

Pure: knows runs and experiments as they are, and touches no file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from onceward.errors import InvalidArgument
from onceward.keys import canonical_json
from onceward.lab.bodies import BASELINE, OURS, NewFeedback, Submission, invalid
from onceward.lab.models import Experiment, Winner


def fingerprint(body: BaseModel, *about: str) -> str:
    """Return the digest of all that a request asks for, its id aside."""
    asked = body.model_dump(mode="json", exclude={"requestId", "answers"}, exclude_none=True)
    answers = getattr(body, "answers", None)
    if answers is not None:
        asked["answers"] = dict(answers)  # An answer of null is an answer.
    return hashlib.sha256(canonical_json([*about, asked])).hexdigest()


def check_side(new: NewFeedback, experiment: Experiment) -> str | None:
    """Return the run that feedback about a side of an experiment is about."""
    if new.variantId is None:
        if new.runId is not None and new.runId not in experiment.run_ids:
            raise invalid(["runId"], "this run is not part of the experiment")
        return new.runId
    run_id = experiment.run_of(new.variantId)
    if run_id is None:
        raise invalid(["variantId"], _sides(experiment))
    if new.runId not in (None, run_id):
        raise invalid(["runId"], f"the run of this variant is {run_id}")
    return run_id


def check_submission(submission: Submission, experiment: Experiment) -> None:
    """Refuse a decision that does not fit the experiment, naming the field."""
    for place, each in enumerate(submission.perRun):
        run_id = experiment.run_of(each.variantId)
        if run_id is None:
            raise invalid(["perRun", place, "variantId"], _sides(experiment))
        if each.runId != run_id:
            raise invalid(["perRun", place, "runId"], f"the run of this variant is {run_id}")
    judged = {each.variantId for each in submission.perRun}
    if BASELINE not in judged:
        raise invalid(["perRun"], "the baseline is missing; its variantId is `baseline`")
    winner = submission.winnerVariantId
    if winner is not None and experiment.run_of(winner) is None:
        raise invalid(["winnerVariantId"], _sides(experiment))
    check_answers(submission.answers or {}, experiment)


def check_answers(answers: Mapping[str, Any], experiment: Experiment) -> None:
    """Refuse answers of another kind than was asked for; what was not asked is kept as it is."""
    asked = {each["id"]: each["type"] for each in experiment.questions}
    for name, value in answers.items():
        if name.startswith(OURS):
            raise invalid(["answers", name], f"names that begin with `{OURS}` are reserved")
        if value is None:
            continue
        if asked.get(name) == "yes_no_unsure" and value not in ("yes", "no", "unsure"):
            raise invalid(["answers", name], "must be yes, no or unsure")
        if asked.get(name) == "text" and not isinstance(value, str):
            raise invalid(["answers", name], "must be text")


def decision(submission: Submission) -> dict[str, Any]:
    """Return what an experiment becomes by a submission, as fields to replace."""
    winner = submission.winnerVariantId
    return {
        "status": "done",
        "winner": Winner(variant_id=winner, reason=submission.reason) if winner else None,
        "reason": submission.reason or None,
        "outcome": submission.outcome or ("winner" if winner else None),
        "answers": dict(submission.answers or {}),
    }


def one_id(header: str | None, body: str | None) -> str | None:
    """Return the request id, which may be said twice but not in two ways."""
    if header is not None and body is not None and header != body:
        message = "requestId: the header and the body name different request ids"
        raise InvalidArgument(message, fix="send one of them", field="requestId")
    return header if header is not None else body


def _sides(experiment: Experiment) -> str:
    names = ", ".join([BASELINE, *(each.variant_id for each in experiment.variants)])
    return f"the experiment has these: {names}"
