"""HTTP: the Lab's routes and pages, as they stand behind the gate.

Owns what is read from a request and how an answer is dressed; the Lab decides everything else.
Changes run in threads, and whoever waits or streams does not occupy those.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, TypeVar

import anyio.to_thread
from fastapi import APIRouter, Header, Query, Request, Response
from starlette.convertors import Convertor, register_url_convertor

from onceward.bells import WAIT_SECONDS_MAX, unless_gone
from onceward.errors import InvalidArgument, OncewardError
from onceward.failures import Documented
from onceward.gate import token_for
from onceward.journal import Page
from onceward.journal.cursor import START
from onceward.lab import schemas
from onceward.lab.bodies import (
    ImportRun,
    NewExperiment,
    NewExport,
    NewFeedback,
    Submission,
    check_request_id,
)
from onceward.lab.content import ARTIFACT_ANSWERS, VIDEO_ANSWERS, Sender
from onceward.lab.lab import LISTED_MAX, Lab
from onceward.lab.manifest import content_type
from onceward.lab.schemas import answers, encoded, experiment_item, parts, results_body, run_item
from onceward.lab.submissions import Answer
from onceward.lab.waiting import Bell, wait_for_page
from onceward.pages import add_pages
from onceward.rooted import RootedFile
from onceward.seams import Clock, SystemClock

T = TypeVar("T")


class _RunId(Convertor[str]):
    """The id of a run in an address, where `import` is none."""

    regex = "(?!import$)[^/]+"

    def convert(self, value: str) -> str:
        """Take it as it is."""
        return value

    def to_string(self, value: str) -> str:
        """Give it as it is."""
        return value


register_url_convertor("run", _RunId())
REQUEST_ID_HEADER: Final = "X-CM-LAB-REQUEST-ID"
TAG_HEADER: Final = "X-CM-LAB-CURSOR-TAG"
REPLAYED_HEADER: Final = "Idempotent-Replayed"
#: How many runs or experiments a page lists when it is not said.
LISTED: Final = 50
#: Zeros in front say nothing, and a number of zeros only is none.
_LEADING_DIGITS: Final = re.compile(r"\s*\+?0*(?P<digits>[0-9]*)")
#: Polls that read the file at the same time; the threads that changes need are others.
POLLS_MAX: Final = 8
#: Changes at the same time; they may wait for another process, and reads must not wait for them.
CHANGES_MAX: Final = 16

RequestId = Annotated[
    str | None,
    Header(
        alias=REQUEST_ID_HEADER,
        description="Makes a retry safe: the same id is carried out once. 1 to 200 characters.",
    ),
]
Limit = Annotated[
    str | None,
    Query(
        description="How many at the most. Leading digits count; 0, less or anything else is as if "
        "absent; above 500 it is 500."
    ),
]
Cursor = Annotated[str | None, Query(description="`nextCursor` of the page before.")]


class _Changes:
    """The threads that changes run in; who only reads has others."""

    def __init__(self) -> None:
        self._threads = anyio.CapacityLimiter(CHANGES_MAX)

    async def do(self, change: Callable[[], T]) -> T:
        """Make a change and return what came of it."""
        return await anyio.to_thread.run_sync(change, limiter=self._threads)


def lab_router(
    lab: Lab,
    *,
    version: str,
    bell: Bell | None = None,
    clock: Clock | None = None,
) -> APIRouter:
    """Return the Lab's routes.

    Args:
        lab: What they are about.
        version: What the pages say this is.
        bell: Wakes who waits for feedback; close it before the server stops.
        clock: The clock for waiting.

    """
    router = APIRouter()
    changes = _Changes()
    waiting = bell or Bell(lab.paths.feedback)
    _add_feedback(router, lab, changes, waiting, clock or SystemClock())
    _add_config(router, lab, version)
    _add_runs(router, lab, changes)
    _add_content(router, lab)
    _add_experiments(router, lab, changes)
    _add_export(router, lab, changes)
    _add_pages(router)
    return router


def _add_config(router: APIRouter, lab: Lab, version: str) -> None:
    @router.get("/api/config", response_model=schemas.Config, responses=answers())
    @router.head("/api/config", include_in_schema=False)
    async def config(request: Request) -> Response:
        """Tell a page what it must know before its first change."""
        session = lab.session
        return _json(
            {
                "sessionId": session.session_id,
                "token": token_for(request.scope),
                "version": version,
                "runnerEnabled": False,
                "runnerAllowNetwork": False,
                "runnerAllowWorkflowExec": False,
                "allowedRoots": [os.fsencode(root).decode(errors="replace") for root in lab.roots],
                "ui": {"blindMetricsDefault": True, "revealMetricsEnabled": True},
                "task": _task(session.task),
                "exitAfterSubmit": lab.exit_after_submit,
            }
        )


def _add_runs(router: APIRouter, lab: Lab, changes: _Changes) -> None:
    imported = answers(404, 415, 422)

    @router.post("/api/runs/import", response_model=schemas.Imported, responses=imported)
    async def import_run(
        body: ImportRun, request: Request, request_id: RequestId = None
    ) -> Response:
        """Make a directory a run, or find the run that it is already."""
        given = _one_id(request, request_id)
        return _answered(await changes.do(lambda: lab.import_once(body, given)))

    @router.get("/api/runs", response_model=schemas.RunPage, responses=answers())
    @router.head("/api/runs", include_in_schema=False)
    def runs(limit: Limit = None, cursor: Cursor = None) -> Response:
        """List the runs, newest first."""
        page = lab.runs(limit=_limit(limit) or LISTED, cursor=cursor)
        items = [run_item(each) for each in page.items]
        return _json({"items": items, "nextCursor": page.next_cursor})

    @router.get("/api/runs/{run_id:run}", response_model=schemas.RunDetail, responses=answers(404))
    @router.head("/api/runs/{run_id:run}", include_in_schema=False)
    def run(run_id: str) -> Response:
        """Show one run and what lies in its directory now."""
        summary = lab.run(run_id)
        artifacts = problem = None
        try:
            with lab.directory(summary.run) as directory:
                artifacts = directory.content()
        except OncewardError as exc:
            problem = exc.message
        item = run_item(summary)
        return _json({**item, "artifacts": artifacts, "artifactsProblem": problem})


def _add_content(router: APIRouter, lab: Lab) -> None:
    sender = Sender()

    @router.get(
        "/api/runs/{run_id:run}/video", response_class=Response, responses=parts(VIDEO_ANSWERS)
    )
    @router.head("/api/runs/{run_id:run}/video", include_in_schema=False)
    async def video(run_id: str, request: Request) -> Response:
        """Send the video of a run, or a part of it."""

        def opened() -> tuple[RootedFile, str, str]:
            with lab.directory(lab.run(run_id).run) as directory:
                file, name = directory.open_video(), directory.video_name() or "video"
            return file, name, content_type(name, "video")

        return await sender.file(request, opened)

    one = "/api/runs/{run_id:run}/artifact/{name:path}"

    @router.get(one, response_class=Response, responses=parts(ARTIFACT_ANSWERS))
    @router.head(one, include_in_schema=False)
    async def artifact(
        run_id: str,
        name: str,
        request: Request,
        rendered: Annotated[bool, Query(description="A Markdown file as a page.")] = False,  # noqa: FBT002 - its name in the query
    ) -> Response:
        """Send a file of a run, or a part of it; Markdown also as a page."""

        def opened() -> tuple[RootedFile, str, str]:
            with lab.directory(lab.run(run_id).run) as directory:
                file, kind = directory.open_artifact(name)
            if rendered and kind != "markdown":
                file.close()
                message = f"rendered: {name:.60} is not declared as Markdown"
                raise InvalidArgument(message, fix="leave `rendered` out", field="rendered")
            return file, name, content_type(name, kind)

        return await (sender.rendered if rendered else sender.file)(request, opened)


def _add_experiments(router: APIRouter, lab: Lab, changes: _Changes) -> None:
    base = "/api/experiments"

    @router.post(base, response_model=schemas.ExperimentCreated, responses=answers(404, 415, 422))
    async def create(
        body: NewExperiment, request: Request, request_id: RequestId = None
    ) -> Response:
        """Set up a comparison of runs."""
        given = _one_id(request, request_id)
        return _answered(await changes.do(lambda: lab.create_once(body, given)))

    @router.get(base, response_model=schemas.ExperimentPage, responses=answers())
    @router.head(base, include_in_schema=False)
    def experiments(limit: Limit = None, cursor: Cursor = None) -> Response:
        """List the experiments, newest first."""
        page = lab.experiments(limit=_limit(limit) or LISTED, cursor=cursor)
        items = [experiment_item(each) for each in page.items]
        return _json({"items": items, "nextCursor": page.next_cursor})

    @router.get(f"{base}/results", response_model=schemas.ResultsAnswer, responses=answers())
    @router.head(f"{base}/results", include_in_schema=False)
    def results() -> Response:
        """Tell which sides win, how sure that is, and how their metrics differ."""
        return _json(results_body(lab.results()))

    one = f"{base}/{{experiment_id}}"

    @router.get(one, response_model=schemas.ExperimentDetail, responses=answers(404))
    @router.head(one, include_in_schema=False)
    def experiment(experiment_id: str) -> Response:
        """Show one experiment, and what its submission was answered."""
        lab.experiment(experiment_id)
        # First: it completes what a dead process announced, and the experiment shows that.
        submission = lab.submission_of(experiment_id)
        return _json({**experiment_item(lab.experiment(experiment_id)), "submission": submission})

    decided = answers(404, 409, 415, 422)

    @router.post(f"{one}/submit", response_model=schemas.Submitted, responses=decided)
    async def submit(
        experiment_id: str, body: Submission, request: Request, request_id: RequestId = None
    ) -> Response:
        """Decide an experiment, once."""
        given = _one_id(request, request_id)
        return _answered(await changes.do(lambda: lab.submit(experiment_id, body, given)))


def _add_feedback(router: APIRouter, lab: Lab, changes: _Changes, bell: Bell, clock: Clock) -> None:
    readers = anyio.CapacityLimiter(POLLS_MAX)
    lab.on_change(bell.ring)

    tagged: Documented = {
        **answers(),
        200: {"headers": {TAG_HEADER: {"schema": {"type": "string"}, "required": True}}},
    }

    @router.get("/api/feedback", response_model=schemas.FeedbackPage, responses=tagged)
    @router.head("/api/feedback", include_in_schema=False)
    async def poll(  # noqa: PLR0913, PLR0917 - the parameters of the query
        request: Request,
        since: Annotated[
            str, Query(description="The cursor to resume after; empty is 0, the start.")
        ] = START,
        session_id: Annotated[str | None, Query(alias="sessionId")] = None,
        limit: Limit = None,
        wait: Annotated[float, Query(ge=0, le=WAIT_SECONDS_MAX, allow_inf_nan=False)] = 0,
        tag: Annotated[str | None, Header(alias=TAG_HEADER)] = None,
    ) -> Response:
        """Return the feedback behind a cursor; wait for some if there is none."""

        async def read(since: str, tag: str | None) -> Page:
            look = partial(lab.poll, since, limit=_limit(limit), session_id=session_id, tag=tag)
            return await anyio.to_thread.run_sync(look, limiter=readers)

        page = await read(since or START, tag)
        if wait and not page.items:
            work = wait_for_page(read, page, seconds=wait, bell=bell, clock=clock)
            # The client may hang up meanwhile; then nobody is there to read what is answered.
            page = await unless_gone(request.receive, work) or page
        return _json({"items": page.items, "nextCursor": page.next_cursor}, {TAG_HEADER: page.tag})

    @router.post(
        "/api/feedback", response_model=schemas.FeedbackAdded, responses=answers(404, 415, 422)
    )
    async def add(body: NewFeedback, request: Request, request_id: RequestId = None) -> Response:
        """Add one judgement."""
        given = _one_id(request, request_id)
        return _answered(await changes.do(lambda: lab.add_feedback(body, given)))


def _add_export(router: APIRouter, lab: Lab, changes: _Changes) -> None:
    @router.post(
        "/api/export", response_model=schemas.ExportWritten, responses=answers(404, 415, 422)
    )
    async def export(body: NewExport, request: Request, request_id: RequestId = None) -> Response:
        """Write everything, or everything of a session, into one file."""
        given = _one_id(request, request_id)
        return _answered(await changes.do(lambda: lab.export_once(body, given)))


def _add_pages(router: APIRouter) -> None:
    at = ("/lab", "/lab/review/{run_id}", "/lab/compare/{experiment_id}", "/lab/results")
    add_pages(router, __package__, page="lab.html", base="/lab", at=at)


def _task(task: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return what is asked of the person; what the command keeps for itself stays here."""
    told = ("type", "experimentId", "runId")
    return None if task is None else {name: task[name] for name in told if name in task}


def _limit(text: str | None) -> int | None:
    """Return the limit of a query as the original Lab reads it; None when it says nothing."""
    found = _LEADING_DIGITS.match(text or "")
    if found is None or not found["digits"]:
        return None
    digits = found["digits"]
    return LISTED_MAX if len(digits) > len(str(LISTED_MAX)) else int(digits)


def _one_id(request: Request, request_id: str | None) -> str | None:
    """Return the request id of the header, which may not name two."""
    if len(set(request.headers.getlist(REQUEST_ID_HEADER))) > 1:
        message = f"requestId: {REQUEST_ID_HEADER} was sent twice, with different ids"
        raise InvalidArgument(message, fix="send one of them", field="requestId")
    return None if request_id is None else check_request_id(request_id)


def _answered(answer: Answer) -> Response:
    return _json(answer.body, {REPLAYED_HEADER: "true"} if answer.replayed else None)


def _json(body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    return Response(encoded(body), headers=headers, media_type="application/json")
