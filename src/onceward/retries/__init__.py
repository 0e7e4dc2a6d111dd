"""Retries: schedules, parked messages, dead letters, redrive."""

from onceward.retries.attempts import Attempts
from onceward.retries.client import retrying
from onceward.retries.dead import DeadLetters
from onceward.retries.models import (
    Attempt,
    Dead,
    DeadFilter,
    DeadLetter,
    DeadLetterDetail,
    FailedAttempt,
    Failure,
    Later,
    LetterState,
    Line,
    Message,
    Parked,
    Redriven,
    Waiting,
)
from onceward.retries.parked import ParkedMessages
from onceward.retries.retries import Retries
from onceward.retries.schedule import (
    AGENTS,
    CLIENT,
    DISPATCH,
    MESSAGES,
    Growing,
    Schedule,
    Steps,
)

__all__ = [
    "AGENTS",
    "CLIENT",
    "DISPATCH",
    "MESSAGES",
    "Attempt",
    "Attempts",
    "Dead",
    "DeadFilter",
    "DeadLetter",
    "DeadLetterDetail",
    "DeadLetters",
    "FailedAttempt",
    "Failure",
    "Growing",
    "Later",
    "LetterState",
    "Line",
    "Message",
    "Parked",
    "ParkedMessages",
    "Redriven",
    "Retries",
    "Schedule",
    "Steps",
    "Waiting",
    "retrying",
]
