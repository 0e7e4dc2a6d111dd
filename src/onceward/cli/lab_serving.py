"""Lab serving: how a command opens the Lab, serves it, and waits there for a judgement."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceward.cli.looking import Looking
from onceward.cli.output import print_error, print_json
from onceward.cli.places import Place, listen
from onceward.cli.serving import Announcement, serve
from onceward.cli.stopping import interrupt, on_stop
from onceward.errors import FileMissing, InvalidArgument, NotWritable, Retryable, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.applications import Starlette

    from onceward.cli.lab_tasks import Task
    from onceward.journal import Record
    from onceward.lab.lab import Lab

AllowRoot = Annotated[
    list[Path] | None,
    typer.Option(
        "--allow-root",
        help="Runs may lie below this directory. Repeatable. Without: the working directory.",
    ),
]


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


class LabServer:
    """One Lab, served until somebody stops it or until it is over."""

    def __init__(
        self, lab: Lab, place: Place, *, open_page: bool | None, json_output: bool
    ) -> None:
        """Serve `lab` at `place`."""
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
        from onceward.access.token_file import open_token

        token = open_token()
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

        return build_app(lab=self.lab)


async def _until_over(
    looking: Looking[Any], lab: Lab, seconds: float | None, and_then: Callable[[], None] | None
) -> None:
    await looking.until_found(lab.on_change, seconds)
    if and_then is not None and looking.found is not None:
        import asyncio

        and_then()
        await asyncio.Event().wait()  # For ever: only a signal ends it.


def finish(
    server: LabServer, task: Task, timeout: float | None, *, stay_open: bool = False
) -> None:
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
    server: LabServer,
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
