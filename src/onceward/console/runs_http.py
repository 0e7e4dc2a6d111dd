"""Runs over HTTP: list and show runs, explain their commands, and read and verify their files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response

from onceward.console.context import ConsoleContext
from onceward.console.responses import (
    PAGE_ITEMS,
    After,
    Limit,
    Page,
    answers,
    clamped,
    extended,
    json_answer,
    moment,
    page_answer,
)
from onceward.console.run_files import (
    ArtifactContent,
    LedgerItem,
    artifact_of,
    journal_page,
    recorded_of,
)
from onceward.console.run_history import INVALID_RECORD_ERRORS
from onceward.console.run_index import RunFilter, RunIndex, RunStateName, runs_of
from onceward.console.run_views import (
    CommandExplanations,
    RunListItem,
    TaskRunDetail,
    detail_of,
    explanations_of,
    list_item,
)
from onceward.orchestrator.ledger import Ledger
from onceward.orchestrator.models import RunVerification, VerificationFinding
from onceward.orchestrator.run_verification import verify_run
from onceward.orchestrator.workspace import Workspace
from onceward.orchestrator.workspace_tree import WorkspaceTree
from onceward.system import SystemClock, SystemFiles
from onceward.system.safe_paths import PATH_BYTES_MAX

#: Above the number of commands of any run.
_STEP_MAX: Final = 10**9
_TEXT_CHARACTERS_MAX: Final = 1_000

WorkspaceId = Annotated[str, Query(max_length=64, description="The id of a workspace.")]
RunId = Annotated[str, Query(max_length=100, description="The id of a run.")]
Status = Annotated[
    RunStateName | None,
    Query(
        description="Only runs in this status; `crashed`: no end, and no process holds the lock."
    ),
]
Text = Annotated[
    str,
    Query(max_length=_TEXT_CHARACTERS_MAX, description="Part of an id, a task, a goal or a path."),
]
Step = Annotated[int, Query(ge=1, le=_STEP_MAX, description="The number of a command.")]
FilePath = Annotated[
    str,
    Query(
        max_length=PATH_BYTES_MAX, description="The file's path, as in the receipt of that command."
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class VerificationResult:
    """The result of verifying a run's files; see `RunVerification`."""

    run_id: str
    records: int
    receipts: int
    artifacts: int
    findings: tuple[VerificationFinding, ...]
    is_as_approved: bool | None
    #: Whether all files match their records.
    ok: bool
    as_of: str


def runs_router(context: ConsoleContext) -> APIRouter:
    """Return the routes of runs."""
    router = APIRouter()
    runs = runs_of(context.workspaces)
    _add_reads(router, runs)
    _add_files(router, runs)
    return router


def _add_reads(router: APIRouter, runs: RunIndex) -> None:
    @router.get("/api/orchestrator/runs", responses=answers(Page[RunListItem]))
    def list_runs(
        limit: Limit = PAGE_ITEMS, after: After = None, status: Status = None, q: Text = ""
    ) -> Response:
        """List the runs of all workspaces, latest first; an empty page may have a next one."""
        wanted = RunFilter(status=status, text=q.strip())
        page = runs.page(wanted, limit=clamped(limit), after=after or None)
        return page_answer(map(list_item, page.items), page.following)

    @router.get("/api/orchestrator/run", responses=answers(TaskRunDetail, 404))
    def show(workspace: WorkspaceId, run: RunId) -> Response:
        """Show a run: its commands, its processes, its crashes, and which steps were reused."""
        with runs.history(workspace, run) as (place, history):
            return json_answer(detail_of(place, history))

    @router.get("/api/orchestrator/explain", responses=answers(CommandExplanations, 404))
    def explain(workspace: WorkspaceId, run: RunId) -> Response:
        """Explain why each command was sent, replayed or skipped, and the parts of its key."""
        with runs.history(workspace, run) as (_, history):
            return json_answer(explanations_of(history))


def _add_files(router: APIRouter, runs: RunIndex) -> None:
    @router.get("/api/orchestrator/journal", responses=answers(Page[LedgerItem], 404))
    def journal(
        workspace: WorkspaceId, run: RunId, limit: Limit = PAGE_ITEMS, after: After = None
    ) -> Response:
        """Return the records of a run's ledger in order, and its damaged lines."""
        with runs.ledger(workspace, run) as (_, file):
            page = journal_page(file, after, clamped(limit))
        return page_answer(page.items, page.following)

    @router.get("/api/orchestrator/artifact", responses=answers(ArtifactContent, 404))
    def artifact(workspace: WorkspaceId, run: RunId, step: Step, path: FilePath) -> Response:
        """Return a file that a receipt of the run names, and whether it matches the record."""
        with runs.history(workspace, run) as (place, history):
            recorded = recorded_of(history, step, path)
        return json_answer(artifact_of(place.root, step, path, recorded))

    @router.get("/api/orchestrator/verify", responses=answers(VerificationResult, 404))
    def verify(workspace: WorkspaceId, run: RunId) -> Response:
        """Verify all files of a run against their records; takes as long as reading them."""
        with runs.ledger(workspace, run) as (root, _):
            place, files, clock = Workspace(root=root), SystemFiles(), SystemClock()
            ledger = Ledger(place.ledger(run), files=files, clock=clock)
            tree = WorkspaceTree(place, files=files, clock=clock)
            try:
                found = verify_run(ledger, place, tree, files)
            except INVALID_RECORD_ERRORS:
                found = _invalid_ledger(run)
        return json_answer(extended(VerificationResult, found, ok=found.ok, as_of=moment()))


def _invalid_ledger(run: str) -> RunVerification:
    problem = "its ledger holds an invalid record with a correct checksum"
    finding = VerificationFinding(path=f"events/{run}.ndjson", problem=problem)
    return RunVerification(run_id=run, records=0, receipts=0, artifacts=0, findings=(finding,))
