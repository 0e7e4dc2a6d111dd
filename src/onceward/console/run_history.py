"""Run history: the processes of a run, how each ended, and what the next one skipped. Pure.

Folded from the ledger record by record, as the run itself is.
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

#: How much of a goal a list shows.
GOAL_CHARACTERS_MAX: Final = 160
Ending = Literal["crashed", "stopped", "failed", "done", "running"]
_ENDINGS: Final[Mapping[str, Ending]] = {
    "run.completed": "done",
    "run.failed": "failed",
    "run.stopped": "stopped",
}
_TIMES: Final = "\N{MULTIPLICATION SIGN}"
#: What a record that makes no sense raises; its checksum fits, so it was written like that.
NONSENSE: Final = (KeyError, TypeError, ValueError, IndexError, AttributeError, AssertionError)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunProcess:
    """One process that worked on a run."""

    from_at: str
    #: When it ended, as far as the ledger knows; None while it goes on.
    to_at: str | None
    ending: Ending
    #: The step that was under way when it crashed.
    step: int | None = None
    stage: str | None = None


@dataclass(kw_only=True, slots=True)
class RunHistory:
    """What a run has come to, and the lives it took; goes on as its ledger does."""

    run_id: str
    state: RunState = field(default_factory=RunState)
    #: Lives that are over.
    over: list[RunProcess] = field(default_factory=list)
    #: When the life began that is not known to be over.
    began_at: str | None = None
    #: The step at which the last resume went on.
    resumed_from: int | None = None
    #: Steps that had a receipt when the run was resumed last.
    kept: set[int] = field(default_factory=set)
    #: How often a step that had a receipt was to be done again.
    redone: int = 0
    #: Lines of the ledger that are not what was written.
    damaged: int = 0
    #: Why the rest of the ledger cannot be interpreted.
    problem: str | None = None

    def take(self, record: Record) -> None:
        """Go on by one record; behind one that does not fit, nothing is certain any more."""
        if self.problem is not None:
            return
        try:
            self._take(record)
        except LedgerDamaged as exc:
            self.problem = exc.message
        except NONSENSE:
            self.problem = f"the record behind {self.state.seq} in its ledger makes no sense"

    def _take(self, record: Record) -> None:
        kind, at = str(record["kind"]), str(record["at"])
        last_at = self.state.updated_at
        if kind == "run.resumed":
            self._crash(last_at)  # The process before did not record its end.
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

    # --- what people see ------------------------------------------------------------------------

    def summary(self) -> TaskRunSummary:
        """Return the run in one line, also when its ledger is damaged."""
        found = replace(summary_of(self.state, self.damaged), run_id=self.run_id)
        if self.problem is None and (found.started_at or not self.damaged):
            return found
        lost = self.problem or "the beginning of its ledger is damaged"
        # A record that is missing is damage as well.
        return replace(found, status="failed", reason=lost, damaged=max(self.damaged, 1))

    @property
    def has_first_record(self) -> bool:
        """Say whether there is anything to tell."""
        return bool(self.state.seq or self.damaged or self.problem)

    @property
    def goal(self) -> str | None:
        """Return what the first task is about, in one short line."""
        if not self.state.tasks:
            return None
        line = " ".join(str(self.state.tasks[0].goal).split())
        is_long = len(line) > GOAL_CHARACTERS_MAX
        return f"{line[: GOAL_CHARACTERS_MAX - 1]}…" if is_long else line

    def lives(self, *, is_held: bool) -> list[RunProcess]:
        """Return every process; one without an end is alive while the run is locked, else dead."""
        if self.began_at is None:
            return list(self.over)
        if is_held and self.problem is None:
            last = RunProcess(from_at=self.began_at, to_at=None, ending="running")
        else:
            last = self._crashed(self.began_at, self.state.updated_at)
        return [*self.over, last]

    def headline(self, lives: Sequence[RunProcess]) -> str:
        """Return in a sentence what happened to the run and what that cost."""
        crashes = sum(each.ending == "crashed" for each in lives)
        stops = sum(each.ending == "stopped" for each in lives)
        told = [f"crashed {crashes}{_TIMES}"] if crashes else []
        told += [f"stopped {stops}{_TIMES}"] if stops else []
        if self.state.resumed:
            told.append(f"resumed from step {self.resumed_from}")
            told.append(f"{self.redone} recorded {_steps(self.redone)} redone")
        elif crashes:
            told.append("not resumed yet")
        if self.problem is not None:
            told.append("its ledger is damaged")
        if told:
            return ", ".join(told)
        done = sum(each.receipt is not None for each in self.state.commands)
        return f"never interrupted, {done} {_steps(done)} recorded"


def _steps(number: int) -> str:
    return "step" if number == 1 else "steps"
