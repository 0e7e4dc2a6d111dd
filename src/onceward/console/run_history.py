"""Run history: list the processes of a run, how each ended, and which steps the next reused.

Pure: computed from the ledger record by record, as the run's state is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from onceward.errors import LedgerDamaged
from onceward.journal import Record
from onceward.orchestrator.ledger_replay import RunState
from onceward.orchestrator.models import TaskRunSummary
from onceward.orchestrator.views import summary_of

#: How many characters of a goal a list shows.
GOAL_CHARACTERS_MAX: Final = 160
Ending = Literal["crashed", "stopped", "failed", "done", "running"]
_ENDINGS: Final[Mapping[str, Ending]] = {
    "run.completed": "done",
    "run.failed": "failed",
    "run.stopped": "stopped",
}
_TIMES: Final = "\N{MULTIPLICATION SIGN}"
#: Errors that an invalid record raises although its checksum is correct.
INVALID_RECORD_ERRORS: Final = (
    KeyError,
    TypeError,
    ValueError,
    IndexError,
    AttributeError,
    AssertionError,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunProcess:
    """One process that worked on a run."""

    from_at: str
    #: When the process ended, according to the ledger; None while it runs.
    to_at: str | None
    ending: Ending
    #: The step in progress when the process crashed.
    step: int | None = None
    stage: str | None = None


@dataclass(kw_only=True, slots=True)
class RunHistory:
    """The state of a run and its processes, updated record by record."""

    run_id: str
    state: RunState = field(default_factory=RunState)
    #: Processes that have ended.
    over: list[RunProcess] = field(default_factory=list)
    #: Start time of the process without a recorded end.
    began_at: str | None = None
    #: The step at which the last resume continued.
    resumed_from: int | None = None
    #: Steps that had a receipt at the last resume.
    kept: set[int] = field(default_factory=set)
    #: How often a step with a receipt was sent again.
    redone: int = 0
    #: Damaged lines of the ledger.
    damaged: int = 0
    #: Why the rest of the ledger cannot be interpreted.
    problem: str | None = None

    def take(self, record: Record) -> None:
        """Apply the next record; after an invalid one, later records are ignored."""
        if self.problem is not None:
            return
        try:
            self._take(record)
        except LedgerDamaged as exc:
            self.problem = exc.message
        except INVALID_RECORD_ERRORS:
            self.problem = f"the record after {self.state.seq} in its ledger is invalid"

    def _take(self, record: Record) -> None:
        _check_types(record)
        kind, at = record["kind"], record["at"]
        last_at = self.state.updated_at
        if kind == "run.resumed":
            self._crash(last_at)  # The previous process did not record its end.
            self.kept = {each.step for each in self.state.commands if each.receipt is not None}
            pending = self.state.open_command()
            self.resumed_from = pending.step if pending else len(self.state.commands) + 1
        elif kind == "redo":
            self.redone += 1
            self.kept.discard(record["step"])
        self.state.apply(record)
        if kind in ("run.started", "run.resumed"):
            self.began_at = at
        elif kind in _ENDINGS and self.began_at is not None:
            self.over.append(RunProcess(from_at=self.began_at, to_at=at, ending=_ENDINGS[kind]))
            self.began_at = None

    def _crash(self, at: str) -> None:
        if self.began_at is not None:
            self.over.append(self._crashed(self.began_at, at))
            self.began_at = None

    def _crashed(self, from_at: str, at: str) -> RunProcess:
        pending = self.state.open_command()
        return RunProcess(
            from_at=from_at,
            to_at=at,
            ending="crashed",
            step=pending.step if pending else None,
            stage=pending.stage if pending else None,
        )

    # --- texts and summaries
    # ------------------------------------------------------------------------

    def summary(self) -> TaskRunSummary:
        """Return the run's summary, also when its ledger is damaged."""
        found = replace(summary_of(self.state, self.damaged), run_id=self.run_id)
        if self.problem is None and (found.started_at or not self.damaged):
            return found
        lost = self.problem or "the beginning of its ledger is damaged"
        # A missing record counts as damage.
        return replace(found, status="failed", reason=lost, damaged=max(self.damaged, 1))

    @property
    def has_first_record(self) -> bool:
        """Return whether the ledger has a valid first record."""
        return bool(self.state.seq or self.damaged or self.problem)

    @property
    def goal(self) -> str | None:
        """Return the first task's goal, in one short line."""
        if not self.state.tasks:
            return None
        line = " ".join(str(self.state.tasks[0].goal).split())
        is_long = len(line) > GOAL_CHARACTERS_MAX
        return f"{line[: GOAL_CHARACTERS_MAX - 1]}…" if is_long else line

    def processes(self, *, is_held: bool) -> list[RunProcess]:
        """Return every process; one without a recorded end is alive only if the run is locked."""
        if self.began_at is None:
            return list(self.over)
        if is_held and self.problem is None:
            last = RunProcess(from_at=self.began_at, to_at=None, ending="running")
        else:
            last = self._crashed(self.began_at, self.state.updated_at)
        return [*self.over, last]

    def headline(self, processes: Sequence[RunProcess]) -> str:
        """Return a sentence on the run's crashes and resumes, and on the steps redone."""
        crashes = sum(each.ending == "crashed" for each in processes)
        stops = sum(each.ending == "stopped" for each in processes)
        parts = [f"crashed {crashes}{_TIMES}"] if crashes else []
        parts += [f"stopped {stops}{_TIMES}"] if stops else []
        if self.state.resumed:
            parts.append(f"resumed from step {self.resumed_from}")
            parts.append(f"{self.redone} recorded {_steps(self.redone)} redone")
        elif crashes:
            parts.append("not resumed yet")
        if self.problem is not None:
            parts.append("its ledger is damaged")
        if parts:
            return ", ".join(parts)
        done = sum(each.receipt is not None for each in self.state.commands)
        return f"never interrupted, {done} {_steps(done)} recorded"


def _check_types(record: Record) -> None:
    """Raise TypeError if a value that is shown has another type than a run writes."""
    shown = [(record["seq"], int), (record["at"], str), (record["kind"], str)]
    if record["kind"] == "command":
        shown += [(record["step"], int), (record["stage"], str), (record["round"], int)]
        shown += [(record["command"]["task_id"], str)]
    if any(not isinstance(value, kind) for value, kind in shown):
        message = "a value of another type"
        raise TypeError(message)


def _steps(number: int) -> str:
    return "step" if number == 1 else "steps"
