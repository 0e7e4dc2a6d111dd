"""Bodies: what people and programs send to the Lab, and the limits of it. Knows no file."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Final, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from onceward.errors import InvalidArgument
from onceward.keys.encoding import is_encodable

#: The variant that every experiment has and nobody names.
BASELINE: Final = "baseline"
NOTES_CHARACTERS_MAX: Final = 20_000
TAGS_MAX: Final = 50
VARIANTS_MAX: Final = 8
QUESTIONS_MAX: Final = 50
ANSWERS_MAX: Final = 100
#: Names in `answers` that begin so are ours: the outcome of an experiment, and its reason.
OURS: Final = "onceward."
_REQUEST_ID: Final = re.compile(r"[\x20-\x7e]{1,200}")
#: A rating that was written as text; an empty field of a form is none.
_RATING: Final = r"\s*(?:0*(?:100(?:\.0*)?|[0-9]{1,2}(?:\.[0-9]*)?))?\s*"

Made = TypeVar("Made", bound=BaseModel)
Item = TypeVar("Item")


def _well_formed(text: str) -> str:
    """Refuse half a surrogate pair: no file and no answer could hold it."""
    if not is_encodable(text):
        message = "holds half of a surrogate pair"
        raise ValueError(message)
    return text


_Text = Annotated[str, AfterValidator(_well_formed)]
Line = Annotated[_Text, StringConstraints(min_length=1, max_length=500)]
Notes = Annotated[_Text, StringConstraints(max_length=NOTES_CHARACTERS_MAX)]
Tag = Annotated[_Text, StringConstraints(min_length=1, max_length=100)]
Id = Annotated[_Text, StringConstraints(min_length=1, max_length=200)]


def _whole_rating(value: object) -> int | None:
    """Return a rating as a whole number; forms send text, and sliders fractions."""
    if isinstance(value, str) and re.fullmatch(_RATING, value):
        value = float(value) if value.strip() else None
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 100:  # type: ignore[operator]  # a number, as just seen
        message = "must be a number from 0 to 100"
        raise ValueError(message)
    return math.floor(value + 0.5)  # type: ignore[operator]  # as above


#: A percentage: 0 is the worst, 100 the best. Fractions are rounded.
Rating = Annotated[
    int | None,
    BeforeValidator(
        _whole_rating,
        json_schema_input_type=Annotated[float, Field(ge=0, le=100)]
        | Annotated[str, StringConstraints(pattern=f"^{_RATING}$")]
        | None,
    ),
]
RequestId = Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]{1,200}$")]


def _one_answer(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    """Say in one sentence what none of the kinds would take."""
    try:
        return handler(value)
    except ValidationError:
        message = (
            f"must be text of at most {NOTES_CHARACTERS_MAX} characters, a number, yes/no or null"
        )
        raise ValueError(message) from None


AnswerValue = Annotated[
    Notes
    | Annotated[bool, Field(strict=True)]
    | Annotated[int, Field(strict=True, ge=-(2**53), le=2**53)]
    | Annotated[float, Field(strict=True, allow_inf_nan=False)]
    | None,
    WrapValidator(_one_answer),
    Field(description="What was answered: text, a truth value, a number, or null."),
]
Answers = Annotated[dict[Id, AnswerValue], Field(max_length=ANSWERS_MAX)]
Tags = Annotated[tuple[Tag, ...], Field(max_length=TAGS_MAX)]
Outcome = Literal["winner", "tie", "both_bad"]


class _Body(BaseModel):
    """What a request may hold; a name that is not listed is a mistake worth telling."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)


class Ratings(_Body):
    """How good, by aspect."""

    overall: Rating = None
    hook: Rating = None
    pacing: Rating = None
    script: Rating = None
    visuals: Rating = None
    motion: Rating = None
    captions: Rating = None
    sync: Rating = None

    def to_record(self) -> dict[str, int]:
        """Return the aspects that were rated."""
        return self.model_dump(exclude_none=True)


class Judgement(_Body):
    """What a person says of one run."""

    ratings: Ratings | None = None
    notes: Notes | None = None
    tags: Tags | None = None

    def is_empty(self) -> bool:
        """Say whether there is nothing in it."""
        rated = self.ratings is not None and self.ratings.to_record()
        tagged = any(each.strip() for each in self.tags or ())
        return not (rated or (self.notes and self.notes.strip()) or tagged)


class NewFeedback(Judgement):
    """One judgement, of a run or of nothing in particular."""

    requestId: RequestId | None = None  # noqa: N815 - the name on the wire
    runId: Id | None = None  # noqa: N815
    experimentId: Id | None = None  # noqa: N815
    variantId: Id | None = None  # noqa: N815
    topic: Line | None = None
    answers: Answers | None = None

    @model_validator(mode="after")
    def _says_something(self) -> NewFeedback:
        given = (self.answers or {}).values()
        answered = any(each is not None and str(each).strip() for each in given)
        # The original's review page submits a form in which nothing was filled in.
        is_form = self.runId is not None and self.ratings is not None
        if self.is_empty() and not answered and not is_form:
            message = "there is nothing in it; send ratings, notes, tags or answers"
            raise ValueError(message)
        return self


class NewVariant(_Body):
    """A run that is compared with the baseline."""

    label: Line | None = None
    runId: Id  # noqa: N815


class Question(_Body):
    """Something to ask whoever compares."""

    id: Id
    prompt: Annotated[_Text, StringConstraints(min_length=1, max_length=2000)]
    type: Literal["yes_no_unsure", "text"]


class NewExperiment(_Body):
    """A comparison to be made."""

    name: Line | None = None
    hypothesis: Annotated[_Text, StringConstraints(min_length=1, max_length=2000)] | None = None
    topic: Line | None = None
    baselineRunId: Id  # noqa: N815
    variants: Annotated[tuple[NewVariant, ...], Field(min_length=1, max_length=VARIANTS_MAX)]
    questions: Annotated[tuple[Question, ...], Field(max_length=QUESTIONS_MAX)] | None = None
    requestId: RequestId | None = None  # noqa: N815

    @model_validator(mode="after")
    def _is_a_comparison(self) -> NewExperiment:
        _no_twins("variants", (each.runId for each in self.variants), "runId")
        if any(each.runId == self.baselineRunId for each in self.variants):
            message = "variants: the baseline cannot be compared with itself"
            raise ValueError(message)
        labels = [each.label for each in self.variants if each.label is not None]
        _no_twins("variants", [BASELINE, *labels], "label")
        _no_twins("questions", (each.id for each in self.questions or ()), "id")
        return self


class ImportRun(_Body):
    """Where a run lies."""

    #: A directory, or a file in it. People paste it, with spaces and line ends around it.
    path: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4096)]
    requestId: RequestId | None = None  # noqa: N815


class NewExport(_Body):
    """What to export, and where to."""

    sessionId: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None  # noqa: N815
    path: Annotated[str, StringConstraints(min_length=1, max_length=4096)] | None = None
    requestId: RequestId | None = None  # noqa: N815


class RunJudgement(Judgement):
    """What a person says of one side of a comparison."""

    runId: Id  # noqa: N815
    variantId: Id  # noqa: N815


class Submission(_Body):
    """The one decision about an experiment."""

    requestId: RequestId | None = None  # noqa: N815
    winnerVariantId: Id | None = None  # noqa: N815
    outcome: Outcome | None = None
    reason: Notes | None = None
    answers: Answers | None = None
    perRun: Annotated[  # noqa: N815
        tuple[RunJudgement, ...], Field(min_length=2, max_length=VARIANTS_MAX + 1)
    ]

    @model_validator(mode="after")
    def _is_one_decision(self) -> Submission:
        if self.outcome == "winner" and self.winnerVariantId is None:
            message = "winnerVariantId: an outcome of `winner` needs to say which"
            raise ValueError(message)
        if self.outcome in ("tie", "both_bad") and self.winnerVariantId is not None:
            message = f"winnerVariantId: an outcome of `{self.outcome}` has no winner"
            raise ValueError(message)
        _no_twins("perRun", (each.variantId for each in self.perRun), "variantId")
        return self


def check_request_id(request_id: object) -> str:
    """Return a request id that can be kept and compared."""
    if not isinstance(request_id, str) or not _REQUEST_ID.fullmatch(request_id):
        message = f"requestId: {request_id!r:.60} is not 1 to 200 printable ASCII characters"
        raise InvalidArgument(message, fix="send a UUID", field="requestId")
    return request_id


def made(build: Callable[[], Made]) -> Made:
    """Build a body by hand, and tell what is wrong with it the way everybody else does."""
    try:
        return build()
    except ValidationError as exc:
        raise invalid(exc.errors()[0]["loc"], exc.errors()[0]["msg"]) from None


def invalid(path: Iterable[str | int], problem: str) -> InvalidArgument:
    """Return the error for one field of a body, named as one would reach it."""
    spelled = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    said = problem.removeprefix("Value error, ")
    name = spelled.removeprefix(".")
    if not name:  # A check of the whole body names the field itself, if it is about one.
        name, colon, rest = said.partition(": ")
        name, said = (name, rest) if colon and name.isidentifier() else ("body", said)
    return InvalidArgument(f"{name}: {said}", fix=f"correct {name}", field=name)


def _no_twins(field: str, values: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            message = f"{field}: two of them have the {what} {value!r:.60}"
            raise ValueError(message)
        seen.add(value)
