"""Judgement rules: validate judgements and submissions against their experiment.

Pure: reads no file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from onceward.errors import InvalidArgument
from onceward.keys import canonical_json
from onceward.lab.models import Experiment, Winner
from onceward.lab.request_models import (
    BASELINE,
    RESERVED_PREFIX,
    NewFeedback,
    Submission,
    invalid_field,
)


def fingerprint(body: BaseModel, *about: str) -> str:
    """Return the digest of a request body, without its request id."""
    asked = body.model_dump(mode="json", exclude={"requestId", "answers"}, exclude_none=True)
    answers = getattr(body, "answers", None)
    if answers is not None:
        asked["answers"] = dict(answers)  # A null answer counts as an answer.
    return hashlib.sha256(canonical_json([*about, asked])).hexdigest()


def resolve_side_run(new: NewFeedback, experiment: Experiment) -> str | None:
    """Return the run of feedback on an experiment; InvalidArgument if it does not fit."""
    if new.variantId is None:
        if new.runId is not None and new.runId not in experiment.run_ids:
            raise invalid_field(["runId"], "is not a run of this experiment")
        return new.runId
    run_id = experiment.run_of(new.variantId)
    if run_id is None:
        raise invalid_field(["variantId"], _sides(experiment))
    if new.runId not in (None, run_id):
        raise invalid_field(["runId"], f"must be {run_id}, the run of this variant")
    return run_id


def check_submission(submission: Submission, experiment: Experiment) -> None:
    """Reject a submission that does not fit the experiment; the error names the field."""
    for place, each in enumerate(submission.perRun):
        run_id = experiment.run_of(each.variantId)
        if run_id is None:
            raise invalid_field(["perRun", place, "variantId"], _sides(experiment))
        if each.runId != run_id:
            raise invalid_field(
                ["perRun", place, "runId"], f"must be {run_id}, the run of this variant"
            )
    judged = {each.variantId for each in submission.perRun}
    if BASELINE not in judged:
        raise invalid_field(["perRun"], "must include the baseline, with the variantId `baseline`")
    winner = submission.winnerVariantId
    if winner is not None and experiment.run_of(winner) is None:
        raise invalid_field(["winnerVariantId"], _sides(experiment))
    check_answers(submission.answers or {}, experiment)


def check_answers(answers: Mapping[str, Any], experiment: Experiment) -> None:
    """Reject answers of the wrong type; answers to unknown questions are accepted."""
    asked = {each["id"]: each["type"] for each in experiment.questions}
    for name, value in answers.items():
        if name.startswith(RESERVED_PREFIX):
            raise invalid_field(
                ["answers", name], f"names that begin with `{RESERVED_PREFIX}` are reserved"
            )
        if value is None:
            continue
        if asked.get(name) == "yes_no_unsure" and value not in ("yes", "no", "unsure"):
            raise invalid_field(["answers", name], "must be yes, no or unsure")
        if asked.get(name) == "text" and not isinstance(value, str):
            raise invalid_field(["answers", name], "must be text")


def decision_fields(submission: Submission) -> dict[str, Any]:
    """Return the fields of an experiment that a submission changes."""
    winner = submission.winnerVariantId
    return {
        "status": "done",
        "winner": Winner(variant_id=winner, reason=submission.reason) if winner else None,
        "reason": submission.reason or None,
        "outcome": submission.outcome or ("winner" if winner else None),
        "answers": dict(submission.answers or {}),
    }


def single_request_id(header: str | None, body: str | None) -> str | None:
    """Return the request id of header or body; two different ones are an error."""
    if header is not None and body is not None and header != body:
        message = "requestId: the header and the body have different request ids"
        raise InvalidArgument(message, fix="send one request id", field="requestId")
    return header if header is not None else body


def _sides(experiment: Experiment) -> str:
    names = ", ".join([BASELINE, *(each.variant_id for each in experiment.variants)])
    return f"must be a variant of the experiment: {names}"
