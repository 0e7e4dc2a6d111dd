"""`onceward lab`: serve the Experiment Lab, or ask somebody for one judgement and wait for it."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from onceward.cli.looking import Looking, Submissions
from onceward.cli.output import print_error, print_json
from onceward.cli.serving import (
    AllowExternal,
    AllowHost,
    Announcement,
    Host,
    OpenPage,
    Place,
    Port,
    ServerJson,
    check_place,
    listen,
    serve,
)
from onceward.cli.stopping import interrupt, on_stop, until_stopped
from onceward.errors import FileMissing, InvalidArgument, NotWritable, Retryable, StorageError
from onceward.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.applications import Starlette

    from onceward.cli.lab_tasks import Task
    from onceward.journal import Record
    from onceward.lab.lab import Lab

_SERVING: Final = f"Onceward {__version__}: the Lab is at {{url}} - Ctrl-C stops it"

# --- the options of the Lab ---------------------------------------------------------------------

AllowRoot = Annotated[
    list[Path] | None,
    typer.Option(
        "--allow-root",
        help="Runs may lie below this directory. Repeatable. Without: the working directory.",
    ),
]
_Session = Annotated[
    str | None,
    typer.Option("--session", help="Go on with this session, its token and its task."),
]
_ExitAfterSubmit = Annotated[
    int | None,
    typer.Option(
        "--exit-after-submit", help="Stop after so many new submissions; 0: never.", min=0
    ),
]
_StayOpen = Annotated[
    bool, typer.Option("--stay-open", help="Go on serving after the submission, until Ctrl-C.")
]
_RequireOverall = Annotated[
    bool, typer.Option("--require-overall", help="Require an overall rating of each run.")
]
_Timeout = Annotated[
    float | None,
    typer.Option("--timeout", help="Give up after so many seconds; exit 1.", min=0),
]
_ResultJson = Annotated[
    bool,
    typer.Option("--json", help="Print a line of JSON once the server answers, then the result."),
]


class _ServeFirst(TyperGroup):
    """A group that serves when no command is named: `onceward lab --port 0`."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - Typer's signature
        """Take options for those of `serve`."""
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ServeFirst,
    add_completion=False,
    rich_markup_mode="markdown",
    help="Serve the Experiment Lab, or ask for one judgement and wait for it; `serve` may be left "
    "out. Example: `onceward lab compare out/a out/b --question 'Is B clearer?'`",
)


@app.command("serve")
def serve_lab(
    host: Host = "127.0.0.1",
    port: Port = None,
    allow_external: AllowExternal = False,
    allow_host: AllowHost = None,
    allow_root: AllowRoot = None,
    session: _Session = None,
    exit_after_submit: _ExitAfterSubmit = None,
    stay_open: _StayOpen = False,
    open_page: OpenPage = None,
    json_output: ServerJson = False,
) -> None:
    """Serve the Lab until Ctrl-C: import runs, review and compare them, see the results.

    Example: `onceward lab --allow-root ~/runs --port 0 --no-open`
    """
    place = check_place(host, port, allow_host, external=allow_external)
    roots = allowed_roots(allow_root)
    wanted = 0 if stay_open or exit_after_submit is None else exit_after_submit
    with until_stopped():
        lab = open_lab(roots, session, exit_after_submit=wanted)
        server = _Server(lab, place, open_page=open_page, json_output=json_output)
        looking = Looking(Submissions(lab, wanted)) if wanted else None
        server.run(_SERVING, "/lab", looking=looking)


@app.command()
def review(
    path: Annotated[Path, typer.Argument(help="A run: its directory, or its video.")],
    host: Host = "127.0.0.1",
    port: Port = None,
    allow_external: AllowExternal = False,
    allow_host: AllowHost = None,
    allow_root: AllowRoot = None,
    session: _Session = None,
    timeout: _Timeout = None,
    require_overall: _RequireOverall = False,
    stay_open: _StayOpen = False,
    open_page: OpenPage = None,
    json_output: _ResultJson = False,
) -> None:
    """Ask somebody to judge one run, wait for it, and print what they said.

    With --session, a review of the same run that was not finished goes on.

    Example: `onceward lab review out/a --json`
    """
    from onceward.cli.lab_tasks import review_task

    place = check_place(host, port, allow_host, external=allow_external)
    lab = open_lab(
        allowed_roots(allow_root, path), session, exit_after_submit=0 if stay_open else 1
    )
    server = _Server(lab, place, open_page=open_page, json_output=json_output)
    task = review_task(lab, path)
    task.page += _query(requireOverall=require_overall)
    _finish(server, task, timeout, stay_open=stay_open)


@app.command()
def compare(
    paths: Annotated[
        list[Path], typer.Argument(help="Runs, two or more; the first one is the baseline.")
    ],
    name: Annotated[str | None, typer.Option(help="Results are counted by this name.")] = None,
    hypothesis: Annotated[str | None, typer.Option(help="What should come out.")] = None,
    topic: Annotated[str | None, typer.Option(help="What the runs are about.")] = None,
    question: Annotated[
        list[str] | None,
        typer.Option(help="Ask this, yes or no; `text:…` wants a text. Repeatable."),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    allow_external: AllowExternal = False,
    allow_host: AllowHost = None,
    allow_root: AllowRoot = None,
    session: _Session = None,
    timeout: _Timeout = None,
    require_overall: _RequireOverall = False,
    good_bad: Annotated[
        bool, typer.Option("--good-bad", help="Ask for a winner: neither a tie nor all bad.")
    ] = False,
    stay_open: _StayOpen = False,
    open_page: OpenPage = None,
    json_output: _ResultJson = False,
) -> None:
    """Ask somebody which run is better, wait for the decision, and print it.

    With --session, a comparison of the same runs that was not finished goes on, unless other words
    are asked now; one that was submitted meanwhile is printed at once. Exit 0 comes with a result
    and never without.

    Example: `onceward lab compare out/a out/b --name hooks --question "Is B clearer?" --json`
    """
    from onceward.cli.lab_tasks import Asked, compare_task

    if len(paths) < 2:
        message = "a comparison needs two runs or more"
        raise InvalidArgument(message, fix="name another directory", field="paths")
    place = check_place(host, port, allow_host, external=allow_external)
    lab = open_lab(
        allowed_roots(allow_root, *paths), session, exit_after_submit=0 if stay_open else 1
    )
    server = _Server(lab, place, open_page=open_page, json_output=json_output)
    asked = Asked(name=name, hypothesis=hypothesis, topic=topic, questions=question or [])
    task = compare_task(lab, paths, asked)
    task.page += _query(requireOverall=require_overall, goodBadMode=good_bad)
    _finish(server, task, timeout, stay_open=stay_open)


# --- what the commands are made of --------------------------------------------------------------


def allowed_roots(given: Sequence[Path] | None, *runs: Path) -> list[Path]:
    """Return the directories that may be read: those given, else this one, and those of runs."""
    for each in given or ():
        if not _is_directory(each):
            message = f"--allow-root {each} is not a directory"
            raise InvalidArgument(message, fix="name a directory that exists", field="allow_root")
    for each in runs:
        if not os.path.exists(each):  # noqa: PTH110 - pathlib's raises for some names
            message = f"{each} does not exist"
            raise FileMissing(message, fix="name the directory of a run, or a file in it")
    roots = [each.expanduser() for each in given or [Path.cwd()]]
    return roots + [each if _is_directory(each) else each.parent for each in runs]


def _is_directory(path: Path) -> bool:
    """Say whether a directory is there, also of names that no file can have."""
    expanded = os.path.expanduser(path)  # noqa: PTH111 - pathlib's raises for unknown users
    return os.path.isdir(expanded)  # noqa: PTH112 - pathlib's raises for some names


def open_lab(
    roots: Sequence[Path], session_id: str | None = None, *, exit_after_submit: int = 0
) -> Lab:
    """Return the Lab that the environment names, with nothing left unfinished in it."""
    from onceward.lab.lab import Lab
    from onceward.lab.paths import FEEDBACK_VARIABLE, ROOT_VARIABLE, LabPaths
    from onceward.lab.sessions import open_session
    from onceward.stores.opening import HOME_VARIABLE

    paths = LabPaths.from_environment()
    try:
        session = open_session(paths, session_id)
    except NotWritable as exc:
        variables = f"{HOME_VARIABLE}, {ROOT_VARIABLE} and {FEEDBACK_VARIABLE}"
        fix = f"make it writable, or set {variables} to paths that you may write"
        raise NotWritable(exc.message, fix=fix, path=str(paths.root)) from exc
    lab = Lab(paths=paths, session=session, roots=roots, exit_after_submit=exit_after_submit)
    lab.recover()
    return lab


class _Server:
    """One Lab, served until somebody stops it or until it is over."""

    def __init__(
        self, lab: Lab, place: Place, *, open_page: bool | None, json_output: bool
    ) -> None:
        self.lab, self.json_output = lab, json_output
        self._place, self._open_page = place, open_page

    def run(
        self,
        sentence: str,
        page: str,
        *,
        task: Mapping[str, object] | None = None,
        looking: Looking[Any] | None = None,
        seconds: float | None = None,
        and_then: Callable[[], None] | None = None,
    ) -> bool:
        """Serve; with something to look for, until it is found or the seconds have passed.

        With something to do after it is found, until Ctrl-C. Returns whether it was stopped from
        outside.
        """
        token = self.lab.session.token
        announcement = Announcement(
            place=self._place,
            token=token,
            session_id=self.lab.session.session_id,
            sentence=sentence,
            page=page,
            task=task,
            open_page=self._open_page,
            json_output=self.json_output,
        )
        until = None
        if looking is not None:
            until = partial(_until_over, looking, self.lab, seconds, and_then)
        with listen(self._place) as listener:
            return serve(
                self._place, listener, token, self._build, announce=announcement, until=until
            )

    def _build(self) -> Starlette:
        from onceward.console.app import build_app

        return build_app(lab=self.lab, external=self._place.external)


async def _until_over(
    looking: Looking[Any], lab: Lab, seconds: float | None, and_then: Callable[[], None] | None
) -> None:
    await looking.until_found(lab.on_change, seconds)
    if and_then is not None and looking.found is not None:
        import asyncio

        and_then()
        await asyncio.Event().wait()  # For ever: only a signal ends it.


def _query(**flags: bool) -> str:
    """Return what tells a page how to behave, with the names of the original's page."""
    given = "&".join(f"{name}=1" for name, is_set in flags.items() if is_set)
    return f"?{given}" if given else ""


def _finish(server: _Server, task: Task, timeout: float | None, *, stay_open: bool = False) -> None:
    """Serve the page of a task until it is done, then print what came of it."""
    session_id = server.lab.session.session_id
    looking = Looking(task.result)
    told: list[bool] = []

    def tell() -> None:
        assert looking.found is not None
        told.append(True)
        if server.json_output:
            print_json(looking.found)
        else:
            print("\n".join(task.lines(looking.found)), flush=True)
        task.forget()

    looking.found = task.result()
    if looking.found is not None:
        if server.json_output:  # No server was needed; the result is the second line all the same.
            address = {"url": None, "sessionId": session_id, "pageUrl": None}
            print_json({**address, **task.names})
        tell()
        return
    is_stopped = _serve_task(server, task, looking, timeout, tell if stay_open else None)
    if looking.found is None:
        error = _unanswered(session_id, None if is_stopped else timeout, looking.error)
        if not is_stopped:
            raise error
        print_error(error)
        raise typer.Exit(128 + signal.SIGINT)
    if not told:  # Also what came in the moment of the stop.
        tell()


def _serve_task(
    server: _Server,
    task: Task,
    looking: Looking[Record],
    timeout: float | None,
    and_then: Callable[[], None] | None,
) -> bool:
    """Serve until the task is done; return whether somebody stopped it before."""
    try:
        with on_stop(interrupt):
            is_stopped = server.run(
                f"{task.what} at {{url}} - waiting for the answer, Ctrl-C stops",
                task.page,
                task=task.names,
                looking=looking,
                seconds=timeout,
                and_then=and_then,
            )
            looking.look_last()
            return is_stopped
    except KeyboardInterrupt:
        return True


def _unanswered(session_id: str, timeout: float | None, error: StorageError | None) -> Retryable:
    """Return the error for a task that nobody has done yet, with the words that go on with it."""
    words = ["onceward", *sys.argv[1:]]
    if "--session" not in words:
        words += ["--session", session_id]
    when = "before this was stopped" if timeout is None else f"within {timeout:g} seconds"
    message = f"nobody has submitted anything {when}"
    if error is not None:
        message = f"whether somebody has submitted something {when} is not known: {error.message}"
    return Retryable(message, fix=f"go on with `{shlex.join(words)}`", sessionId=session_id)
