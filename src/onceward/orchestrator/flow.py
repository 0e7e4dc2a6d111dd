"""Flow: the stages of a task and which answer leads where, as one declaration that is interpreted.

Pure data, its form in a ledger, and one look-up. Knows neither ledgers nor agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from onceward.journal import Record

DONE: Final = "done"
#: What an answer says: its event, and its status where the event has one.
Answer = tuple[str, str | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """One kind of command, who gets it, and what follows from the answers."""

    #: Its name is also the action of its command.
    name: str
    #: The type of agent that is asked.
    agent: str
    #: The stage behind each answer; an answer that is not here is none.
    on: Mapping[Answer, str]
    #: Whether the command carries what the last answer asked to change.
    takes_changes: bool = False
    #: Whether the outputs that a task expects are this command's to make.
    makes_outputs: bool = False
    #: Whether its answer `approved` is what lets a task be delivered.
    approves: bool = False

    def to_record(self) -> Record:
        """Return the stage as a ledger holds it."""
        return {
            "name": self.name,
            "agent": self.agent,
            "on": [[*answer, stage] for answer, stage in self.on.items()],
            "takes_changes": self.takes_changes,
            "makes_outputs": self.makes_outputs,
            "approves": self.approves,
        }

    @classmethod
    def from_record(cls, record: Record) -> Stage:
        """Return the stage of a ledger."""
        on = {(event, status): stage for event, status, stage in record["on"]}
        return cls(**{**record, "on": on})


_STAGES: Final = (
    Stage(
        name="implement",
        agent="builder",
        on={("builder.completed", None): "review"},
        makes_outputs=True,
    ),
    Stage(
        name="review",
        agent="reviewer",
        on={
            ("review.completed", "approved"): "update_spec",
            ("review.completed", "changes_requested"): "implement_changes",
        },
        approves=True,
    ),
    Stage(
        name="implement_changes",
        agent="builder",
        on={("builder.completed", None): "review"},
        takes_changes=True,
        makes_outputs=True,
    ),
    Stage(
        name="update_spec",
        agent="spec_maintainer",
        on={
            ("spec.updated", None): DONE,
            ("spec.no_changes_needed", None): DONE,
            ("spec.changes_requested", None): "implement_changes",
        },
    ),
)
FLOW: Final[Mapping[str, Stage]] = {stage.name: stage for stage in _STAGES}
AGENTS: Final = tuple(dict.fromkeys(stage.agent for stage in _STAGES))


def flow_record(flow: Mapping[str, Stage] = FLOW) -> list[Record]:
    """Return a flow as the first record of a run pins it; its first stage comes first."""
    return [stage.to_record() for stage in flow.values()]


def flow_of(record: list[Record]) -> Mapping[str, Stage]:
    """Return the flow that a run was started with."""
    return {each["name"]: Stage.from_record(each) for each in record}


def following(stage: Stage, event: Mapping[str, Any]) -> str | None:
    """Return the stage behind an answer; None when the answer does not belong to the stage."""
    name = event["event"]
    found = stage.on.get((name, event.get("status")))
    return found if found is not None else stage.on.get((name, None))
