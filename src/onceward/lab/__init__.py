"""Lab: people judge what agents made, and every judgement reaches the agent once."""

from onceward.lab.bodies import NewExperiment, NewFeedback, Submission
from onceward.lab.client import FeedbackClient
from onceward.lab.lab import Lab, RunSummary
from onceward.lab.models import Experiment, Run
from onceward.lab.paths import LabPaths
from onceward.lab.sessions import Session, open_session
from onceward.lab.submissions import Answer

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
