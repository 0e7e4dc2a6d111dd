"""Lab: people judge agents' runs; agents receive each judgement exactly once."""

from onceward.lab.client import FeedbackClient
from onceward.lab.lab import Lab, LabRunSummary
from onceward.lab.lab_paths import LabPaths
from onceward.lab.models import Experiment, LabRun
from onceward.lab.request_models import NewExperiment, NewFeedback, Submission
from onceward.lab.sessions import LabSession, open_session
from onceward.lab.submissions import IdempotentResponse

__all__ = [
    "Experiment",
    "FeedbackClient",
    "IdempotentResponse",
    "Lab",
    "LabPaths",
    "LabRun",
    "LabRunSummary",
    "LabSession",
    "NewExperiment",
    "NewFeedback",
    "Submission",
    "open_session",
]
