"""Lab: people judge what agents made, and every judgement reaches the agent once."""

from onceward.lab.client import FeedbackClient
from onceward.lab.lab import Answer, Lab, RunSummary
from onceward.lab.models import NewExperiment, NewFeedback, Submission
from onceward.lab.paths import LabPaths
from onceward.lab.records import Experiment, Run
from onceward.lab.sessions import Session, open_session

__all__ = [
    "Answer",
    "Experiment",
    "FeedbackClient",
    "Lab",
    "LabPaths",
    "NewExperiment",
    "NewFeedback",
    "Run",
    "RunSummary",
    "Session",
    "Submission",
    "open_session",
]
