"""Task flow: the stages of a task and their transitions, as one declaration.

Pure data, with its JSON form in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from onceward.journal import Record

DONE: Final = "done"
#: The kind of an answer: its event, and its status if the event has one.
AnswerKind = tuple[str, str | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskStage:
    """A stage of a task: its command, its agent, and the next stage for each answer."""

    #: Its name is also the action of its command.
    name: str
    #: The type of agent that gets the command.
    agent: str
    #: The next stage for each kind of answer; other answers are rejected.
    on: Mapping[AnswerKind, str]
    #: Whether the command's inputs contain the changes requested by the last answer.
    takes_changes: bool = False
    #: Whether this command must make the expected outputs of the task.
    makes_outputs: bool = False
    #: Whether its answer `approved` approves the task for delivery.
    approves: bool = False

    def to_record(self) -> Record:
        """Return the stage as a ledger record."""
        return {
            "name": self.name,
            "agent": self.agent,
            "on": [[*answer, stage] for answer, stage in self.on.items()],
            "takes_changes": self.takes_changes,
            "makes_outputs": self.makes_outputs,
            "approves": self.approves,
        }

    @classmethod
    def from_record(cls, record: Record) -> TaskStage:
        """Return the stage of a ledger record."""
        on = {(event, status): stage for event, status, stage in record["on"]}
        return cls(**{**record, "on": on})


_STAGES: Final = (
    TaskStage(
        name="implement",
        agent="builder",
        on={("builder.completed", None): "review"},
        makes_outputs=True,
    ),
    TaskStage(
        name="review",
        agent="reviewer",
        on={
            ("review.completed", "approved"): "update_spec",
            ("review.completed", "changes_requested"): "implement_changes",
        },
        approves=True,
    ),
    TaskStage(
        name="implement_changes",
        agent="builder",
        on={("builder.completed", None): "review"},
        takes_changes=True,
        makes_outputs=True,
    ),
    TaskStage(
        name="update_spec",
        agent="spec_maintainer",
        on={
            ("spec.updated", None): DONE,
            ("spec.no_changes_needed", None): DONE,
            ("spec.changes_requested", None): "implement_changes",
        },
    ),
)
FLOW: Final[Mapping[str, TaskStage]] = {stage.name: stage for stage in _STAGES}
AGENTS: Final = tuple(dict.fromkeys(stage.agent for stage in _STAGES))


def flow_record(flow: Mapping[str, TaskStage] = FLOW) -> list[Record]:
    """Return a flow as a ledger record, first stage first; a run's first record pins it."""
    return [stage.to_record() for stage in flow.values()]


def flow_from_record(record: list[Record]) -> Mapping[str, TaskStage]:
    """Return the flow of a ledger record."""
    return {each["name"]: TaskStage.from_record(each) for each in record}


def next_stage(stage: TaskStage, event: Mapping[str, Any]) -> str | None:
    """Return the next stage after an answer; None if the answer does not belong to the stage."""
    name = event["event"]
    found = stage.on.get((name, event.get("status")))
    return found if found is not None else stage.on.get((name, None))
