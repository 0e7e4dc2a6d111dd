"""Lab HTTP: routes for runs, experiments, feedback and its long poll, and the Lab's pages.

Owns parsing of requests and headers of responses; the Lab decides everything else. Changes run in
threads of their own, which long polls and streams do not occupy.
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

from onceward.errors import InvalidArgument, OncewardError
from onceward.http.built_pages import add_document
from onceward.http.guard import page_token_for
from onceward.http.long_poll import WAIT_SECONDS_MAX, cancel_on_disconnect
from onceward.journal import RecordPage
from onceward.journal.byte_cursor import START
from onceward.lab import response_models
from onceward.lab.feedback_long_poll import FeedbackNotifier, wait_for_page
from onceward.lab.lab import LISTED_MAX, Lab
from onceward.lab.manifest import content_type
from onceward.lab.request_models import (
    ImportRun,
    NewExperiment,
    NewExport,
    NewFeedback,
    Submission,
    check_request_id,
)
from onceward.lab.response_models import (
    answers,
    encoded,
    experiment_item,
    parts,
    results_body,
    run_item,
)
from onceward.lab.run_content import ARTIFACT_MEDIA_TYPES, VIDEO_MEDIA_TYPES, FileSender
from onceward.lab.submissions import IdempotentResponse
from onceward.system import Clock, SystemClock
from onceward.system.safe_paths import RootedFile

T = TypeVar("T")


class _RunIdConvertor(Convertor[str]):
    """A run id in an address; `import` is not one."""

    regex = "(?!import$)[^/]+"

    def convert(self, value: str) -> str:
        """Return the value unchanged."""
        return value

    def to_string(self, value: str) -> str:
        """Return the value unchanged."""
        return value


register_url_convertor("run", _RunIdConvertor())
REQUEST_ID_HEADER: Final = "X-CM-LAB-REQUEST-ID"
TAG_HEADER: Final = "X-CM-LAB-CURSOR-TAG"
REPLAYED_HEADER: Final = "Idempotent-Replayed"
#: The path of every page of the Lab; the document routes to the screen itself.
PAGES: Final = ("/lab", "/lab/review/{run_id}", "/lab/compare/{experiment_id}", "/lab/results")
#: Default number of runs or experiments per page.
LISTED: Final = 50
#: Leading zeros are skipped; a number of only zeros counts as absent.
_LEADING_DIGITS: Final = re.compile(r"\s*\+?0*(?P<digits>[0-9]*)")
#: Polls that may read the file at the same time, in threads other than those of changes.
POLLS_MAX: Final = 8
#: Changes at the same time; they may wait for another process, without delaying reads.
CHANGES_MAX: Final = 16

RequestId = Annotated[
    str | None,
    Header(
        alias=REQUEST_ID_HEADER,
        description="Makes a retry idempotent: one id is carried out once. 1 to 200 characters.",
    ),
]
Limit = Annotated[
    str | None,
    Query(
        description="Maximum number of items, up to 500. Leading digits count; 0, negative numbers "
        "and text count as absent."
    ),
]
Cursor = Annotated[str | None, Query(description="`nextCursor` of the page before.")]


class _WriteThreads:
    """The threads that changes run in, separate from those of reads."""

    def __init__(self) -> None:
        self._threads = anyio.CapacityLimiter(CHANGES_MAX)

    async def run(self, change: Callable[[], T]) -> T:
        """Make a change in a thread and return its result."""
        return await anyio.to_thread.run_sync(change, limiter=self._threads)


def lab_router(
    lab: Lab,
    *,
    version: str,
    notifier: FeedbackNotifier | None = None,
    clock: Clock | None = None,
) -> APIRouter:
    """Return the Lab's routes.

    Args:
        lab: The Lab to serve.
        version: The version that the pages show.
        notifier: Wakes waiting requests; close it before the server stops.
        clock: The clock for waiting.

    """
    router = APIRouter()
    changes = _WriteThreads()
    waiting = notifier or FeedbackNotifier(lab.paths.feedback)
    _add_feedback(router, lab, changes, waiting, clock or SystemClock())
    _add_config(router, lab, version)
    _add_runs(router, lab, changes)
    _add_content(router, lab)
    _add_experiments(router, lab, changes)
    _add_export(router, lab, changes)
    add_document(router, "lab.html", at=PAGES)
    return router


def _add_config(router: APIRouter, lab: Lab, version: str) -> None:
    @router.get("/api/config", responses=answers(response_models.LabConfig))
    @router.head("/api/config", include_in_schema=False)
    async def config(request: Request) -> Response:
        """Return the settings that a page needs before its first change."""
        session = lab.session
        return _json(
            {
                "sessionId": session.session_id,
                "token": page_token_for(request.scope),
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


def _add_runs(router: APIRouter, lab: Lab, changes: _WriteThreads) -> None:
    imported = answers(response_models.ImportedRun, 404, 415, 422)

    @router.post("/api/runs/import", responses=imported)
    async def import_run(
        body: ImportRun, request: Request, request_id: RequestId = None
    ) -> Response:
        """Import a directory as a run, or find its existing run."""
        given = _one_id(request, request_id)
        return _idempotent(await changes.run(lambda: lab.import_once(body, given)))

    @router.get("/api/runs", responses=answers(response_models.LabRunPage))
    @router.head("/api/runs", include_in_schema=False)
    def runs(limit: Limit = None, cursor: Cursor = None) -> Response:
        """List the runs, newest first."""
        page = lab.runs(limit=_limit(limit) or LISTED, cursor=cursor)
        items = [run_item(each) for each in page.items]
        return _json({"items": items, "nextCursor": page.next_cursor})

    @router.get("/api/runs/{run_id:run}", responses=answers(response_models.RunDetail, 404))
    @router.head("/api/runs/{run_id:run}", include_in_schema=False)
    def run(run_id: str) -> Response:
        """Return one run and the current content of its directory."""
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
    sender = FileSender()

    @router.get(
        "/api/runs/{run_id:run}/video", response_class=Response, responses=parts(VIDEO_MEDIA_TYPES)
    )
    @router.head("/api/runs/{run_id:run}/video", include_in_schema=False)
    async def video(run_id: str, request: Request) -> Response:
        """Return the video of a run, or a range of it."""

        def opened() -> tuple[RootedFile, str, str]:
            with lab.directory(lab.run(run_id).run) as directory:
                file, name = directory.open_video(), directory.video_name() or "video"
            return file, name, content_type(name, "video")

        return await sender.file(request, opened)

    one = "/api/runs/{run_id:run}/artifact/{name:path}"

    @router.get(one, response_class=Response, responses=parts(ARTIFACT_MEDIA_TYPES))
    @router.head(one, include_in_schema=False)
    async def artifact(
        run_id: str,
        name: str,
        request: Request,
        rendered: Annotated[bool, Query(description="A Markdown file as a page.")] = False,  # noqa: FBT002 - its name in the query
    ) -> Response:
        """Return a file of a run, or a range of it; Markdown also rendered as a page."""

        def opened() -> tuple[RootedFile, str, str]:
            with lab.directory(lab.run(run_id).run) as directory:
                file, kind = directory.open_artifact(name)
            if rendered and kind != "markdown":
                file.close()
                message = f"rendered: {name!r:.60} is not declared as Markdown in lab.json"
                raise InvalidArgument(message, fix="omit `rendered`", field="rendered")
            return file, name, content_type(name, kind)

        return await (sender.rendered if rendered else sender.file)(request, opened)


def _add_experiments(router: APIRouter, lab: Lab, changes: _WriteThreads) -> None:
    base = "/api/experiments"

    @router.post(base, responses=answers(response_models.ExperimentCreated, 404, 415, 422))
    async def create(
        body: NewExperiment, request: Request, request_id: RequestId = None
    ) -> Response:
        """Create an experiment: a comparison of runs."""
        given = _one_id(request, request_id)
        return _idempotent(await changes.run(lambda: lab.create_once(body, given)))

    @router.get(base, responses=answers(response_models.ExperimentPage))
    @router.head(base, include_in_schema=False)
    def experiments(limit: Limit = None, cursor: Cursor = None) -> Response:
        """List the experiments, newest first."""
        page = lab.experiments(limit=_limit(limit) or LISTED, cursor=cursor)
        items = [experiment_item(each) for each in page.items]
        return _json({"items": items, "nextCursor": page.next_cursor})

    @router.get(f"{base}/results", responses=answers(response_models.ExperimentResultsBody))
    @router.head(f"{base}/results", include_in_schema=False)
    def results() -> Response:
        """Return wins by variant, their confidence intervals, and differences of metrics."""
        return _json(results_body(lab.results()))

    one = f"{base}/{{experiment_id}}"

    @router.get(one, responses=answers(response_models.ExperimentDetail, 404))
    @router.head(one, include_in_schema=False)
    def experiment(experiment_id: str) -> Response:
        """Return one experiment, and the response to its submission."""
        lab.experiment(experiment_id)
        # First, because it completes unfinished writes, and the experiment shows their effect.
        submission = lab.submission_of(experiment_id)
        return _json({**experiment_item(lab.experiment(experiment_id)), "submission": submission})

    decided = answers(response_models.SubmissionRecorded, 404, 409, 415, 422)

    @router.post(f"{one}/submit", responses=decided)
    async def submit(
        experiment_id: str, body: Submission, request: Request, request_id: RequestId = None
    ) -> Response:
        """Decide an experiment, once."""
        given = _one_id(request, request_id)
        return _idempotent(await changes.run(lambda: lab.submit(experiment_id, body, given)))


def _add_feedback(
    router: APIRouter, lab: Lab, changes: _WriteThreads, notifier: FeedbackNotifier, clock: Clock
) -> None:
    readers = anyio.CapacityLimiter(POLLS_MAX)
    lab.on_change(notifier.notify)

    tagged = answers(response_models.FeedbackPage)
    tagged[200]["headers"] = {TAG_HEADER: {"schema": {"type": "string"}, "required": True}}

    @router.get("/api/feedback", responses=tagged)
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
        """Return the feedback after a cursor; wait for the first entry if there is none."""

        async def read(since: str, tag: str | None) -> RecordPage:
            look = partial(lab.poll, since, limit=_limit(limit), session_id=session_id, tag=tag)
            return await anyio.to_thread.run_sync(look, limiter=readers)

        page = await read(since or START, tag)
        if wait and not page.items:
            work = wait_for_page(read, page, seconds=wait, notifier=notifier, clock=clock)
            # If the client disconnects, the result is not needed.
            page = await cancel_on_disconnect(request.receive, work) or page
        return _json({"items": page.items, "nextCursor": page.next_cursor}, {TAG_HEADER: page.tag})

    @router.post(
        "/api/feedback",
        responses=answers(response_models.FeedbackAdded, 404, 415, 422),
    )
    async def add(body: NewFeedback, request: Request, request_id: RequestId = None) -> Response:
        """Add one judgement."""
        given = _one_id(request, request_id)
        return _idempotent(await changes.run(lambda: lab.add_feedback(body, given)))


def _add_export(router: APIRouter, lab: Lab, changes: _WriteThreads) -> None:
    @router.post(
        "/api/export",
        responses=answers(response_models.ExportWritten, 404, 415, 422),
    )
    async def export(body: NewExport, request: Request, request_id: RequestId = None) -> Response:
        """Export all records, or those of one session, into one file."""
        given = _one_id(request, request_id)
        return _idempotent(await changes.run(lambda: lab.export_once(body, given)))


def _task(task: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return the task of a session without the fields that only the command needs."""
    public = ("type", "experimentId", "runId")
    return None if task is None else {name: task[name] for name in public if name in task}


def _limit(text: str | None) -> int | None:
    """Return the limit of a query as the original Lab parses it; None if it has no value."""
    found = _LEADING_DIGITS.match(text or "")
    if found is None or not found["digits"]:
        return None
    digits = found["digits"]
    return LISTED_MAX if len(digits) > len(str(LISTED_MAX)) else int(digits)


def _one_id(request: Request, request_id: str | None) -> str | None:
    """Return the request id of the header; two different ones are an error."""
    if len(set(request.headers.getlist(REQUEST_ID_HEADER))) > 1:
        message = f"requestId: the header {REQUEST_ID_HEADER} was sent twice with different ids"
        raise InvalidArgument(message, fix="send one request id", field="requestId")
    return None if request_id is None else check_request_id(request_id)


def _idempotent(answer: IdempotentResponse) -> Response:
    return _json(answer.body, {REPLAYED_HEADER: "true"} if answer.replayed else None)


def _json(body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    return Response(encoded(body), headers=headers, media_type="application/json")
