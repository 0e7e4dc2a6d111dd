"""Retries: retry schedules, parked messages, the dead-letter queue and its redrive."""

from onceward.retries.call_retry import retrying
from onceward.retries.dead_letters import DeadLetters
from onceward.retries.held_attempts import HeldAttempts
from onceward.retries.models import (
    Attempt,
    Dead,
    DeadFilter,
    DeadLetter,
    DeadLetterDetail,
    Dropped,
    FailedAttempt,
    Failure,
    Later,
    LetterSource,
    LetterState,
    Parked,
    ParkedSummary,
    Redriven,
    RequeueTarget,
    RetryMessage,
)
from onceward.retries.parked import ParkedMessages
from onceward.retries.retries import Retries
from onceward.retries.retry_schedule import (
    AGENTS,
    CLIENT,
    DISPATCH,
    MESSAGES,
    ExponentialBackoff,
    FixedDelays,
    Schedule,
)

__all__ = [
    "AGENTS",
    "CLIENT",
    "DISPATCH",
    "MESSAGES",
    "Attempt",
    "Dead",
    "DeadFilter",
    "DeadLetter",
    "DeadLetterDetail",
    "DeadLetters",
    "Dropped",
    "ExponentialBackoff",
    "FailedAttempt",
    "Failure",
    "FixedDelays",
    "HeldAttempts",
    "Later",
    "LetterSource",
    "LetterState",
    "Parked",
    "ParkedMessages",
    "ParkedSummary",
    "Redriven",
    "RequeueTarget",
    "Retries",
    "RetryMessage",
    "Schedule",
    "retrying",
]
