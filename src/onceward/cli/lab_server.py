"""Lab server: open the Lab for a command, serve it, and wait for a judgement."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceward.cli.http_server import Announcement, serve
from onceward.cli.interruptible_wait import InterruptibleWait
from onceward.cli.listen_address import ListenAddress, listen
from onceward.cli.output import print_error, print_json
from onceward.cli.stop_signals import interrupt, on_stop
from onceward.errors import FileMissing, InvalidArgument, NotWritable, Retryable, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.applications import Starlette

    from onceward.cli.lab_tasks import HumanTask
    from onceward.journal import Record
    from onceward.lab.lab import Lab

AllowRoot = Annotated[
    list[Path] | None,
    typer.Option(
        "--allow-root",
        help="Let the Lab import runs below this directory. Repeatable. "
        "Default: the working directory.",
    ),
]
AllowMoreRoot = Annotated[
    list[Path] | None,
    typer.Option(
        "--allow-root",
        help="Let the Lab import other runs below this directory; those passed always are. "
        "Repeatable. Default: the working directory.",
    ),
]


def allowed_roots(given: Sequence[Path] | None, *runs: Path) -> list[Path]:
    """Return the readable directories: those given or this one, and those of the runs."""
    for each in given or ():
        if not _is_directory(each):
            message = f"--allow-root {each} is not a directory"
            raise InvalidArgument(message, fix="pass a directory that exists", field="allow_root")
    for each in runs:
        if not os.path.exists(each):  # noqa: PTH110 - pathlib's raises for some names
            message = f"{each} does not exist"
            raise FileMissing(message, fix="pass the directory of a run, or a file in it")
    roots = [each.expanduser() for each in given or [Path.cwd()]]
    return roots + [each if _is_directory(each) else each.parent for each in runs]


def _is_directory(path: Path) -> bool:
    """Return whether a directory exists, also for names that no file can have."""
    expanded = os.path.expanduser(path)  # noqa: PTH111 - pathlib's raises for unknown users
    return os.path.isdir(expanded)  # noqa: PTH112 - pathlib's raises for some names


def open_lab(
    roots: Sequence[Path], session_id: str | None = None, *, exit_after_submit: int = 0
) -> Lab:
    """Open the Lab that the environment names, and recover interrupted writes."""
    from onceward.lab.lab import Lab
    from onceward.lab.lab_paths import FEEDBACK_VARIABLE, ROOT_VARIABLE, LabPaths
    from onceward.lab.sessions import open_session
    from onceward.stores.store_urls import HOME_VARIABLE

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
    """One Lab, served until it is stopped or its task is done."""

    def __init__(
        self, lab: Lab, address: ListenAddress, *, open_page: bool | None, json_output: bool
    ) -> None:
        """Serve `lab` at `address`."""
        self.lab, self.json_output = lab, json_output
        self._address, self._open_page = address, open_page

    def run(
        self,
        sentence: str,
        page: str,
        *,
        task: Mapping[str, object] | None = None,
        waiting: InterruptibleWait[Any] | None = None,
        seconds: float | None = None,
        and_then: Callable[[], None] | None = None,
    ) -> bool:
        """Serve; with `waiting`, until its result is found or `seconds` have passed.

        With `and_then`, call it with the result and serve until Ctrl-C. Returns whether a signal
        stopped it.
        """
        from onceward.http.token_file import open_token

        token = open_token()
        announcement = Announcement(
            address=self._address,
            token=token,
            session_id=self.lab.session.session_id,
            sentence=sentence,
            page=page,
            task=task,
            open_page=self._open_page,
            json_output=self.json_output,
        )
        until = None
        if waiting is not None:
            until = partial(_until_over, waiting, self.lab, seconds, and_then)
        with listen(self._address) as listener:
            return serve(
                self._address, listener, token, self._build, announce=announcement, until=until
            )

    def _build(self) -> Starlette:
        from onceward.console.app import build_app

        return build_app(lab=self.lab)


async def _until_over(
    waiting: InterruptibleWait[Any],
    lab: Lab,
    seconds: float | None,
    and_then: Callable[[], None] | None,
) -> None:
    await waiting.until_found(lab.on_change, seconds)
    if and_then is not None and waiting.found is not None:
        import asyncio

        and_then()
        await asyncio.Event().wait()  # For ever: only a signal ends it.


def finish(
    server: LabServer, task: HumanTask, timeout: float | None, *, stay_open: bool = False
) -> None:
    """Serve the page of a task until it is done, then print its result."""
    session_id = server.lab.session.session_id
    waiting = InterruptibleWait(task.result)
    printed: list[bool] = []

    def print_result() -> None:
        assert waiting.found is not None
        printed.append(True)
        if server.json_output:
            print_json(waiting.found)
        else:
            print("\n".join(task.lines(waiting.found)), flush=True)
        task.forget()

    waiting.found = task.result()
    if waiting.found is not None:
        if server.json_output:  # No server was needed; the result is the second line here, too.
            address = {"url": None, "sessionId": session_id, "pageUrl": None}
            print_json({**address, **task.names})
        print_result()
        return
    is_stopped = _serve_task(server, task, waiting, timeout, print_result if stay_open else None)
    if waiting.found is None:
        error = _unanswered(session_id, None if is_stopped else timeout, waiting.error)
        if not is_stopped:
            raise error
        print_error(error)
        raise typer.Exit(128 + signal.SIGINT)
    if not printed:  # Also a result that came during the stop.
        print_result()


def _serve_task(
    server: LabServer,
    task: HumanTask,
    waiting: InterruptibleWait[Record],
    timeout: float | None,
    and_then: Callable[[], None] | None,
) -> bool:
    """Serve until the task is done; return whether it was stopped before."""
    try:
        with on_stop(interrupt):
            is_stopped = server.run(
                f"{task.what} at {{url}} - waiting for the answer, Ctrl-C stops",
                task.page,
                task=task.names,
                waiting=waiting,
                seconds=timeout,
                and_then=and_then,
            )
            waiting.check_last()
            return is_stopped
    except KeyboardInterrupt:
        return True


def _unanswered(session_id: str, timeout: float | None, error: StorageError | None) -> Retryable:
    """Return the error for an unfinished task, with the command that resumes it."""
    words = ["onceward", *sys.argv[1:]]
    if "--session" not in words:
        words += ["--session", session_id]
    when = "before this was stopped" if timeout is None else f"within {timeout:g} seconds"
    message = f"nothing was submitted {when}"
    if error is not None:
        message = f"it is unknown whether something was submitted {when}: {error.message}"
    return Retryable(message, fix=f"resume with `{shlex.join(words)}`", sessionId=session_id)
