"""`onceward init`, `run` and `resume`: make a workspace, run tasks in it, go on after a crash."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

import typer

from onceward.cli.output import JsonFlag, print_error, print_json, warn
from onceward.errors import Drifted, InvalidArgument, OncewardError, RunHeld, RunMissing
from onceward.signals import on_stop_signal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from onceward.journal import Record
    from onceward.orchestrator.config import Config
    from onceward.orchestrator.models import RunResult, Task

#: How many changed files are named before a question or a refusal.
CHANGES_SHOWN_MAX: Final = 10
REFRESHES_PER_SECOND: Final = 4
EXIT_INPUT: Final = 2

WorkspaceOption = Annotated[
    Path | None,
    typer.Option("--workspace", help="The directory with `onceward.json`; else this one."),
]
_Wait = Annotated[
    bool,
    typer.Option("--wait", help="Wait while another orchestrator works in this workspace."),
]
_StreamJson = Annotated[
    bool,
    typer.Option("--json", help="Print every ledger record as a line of JSON, then the result."),
]


def init(
    directory: Annotated[
        Path, typer.Argument(help="The workspace to be; this directory if left out.")
    ] = Path(),
    example: Annotated[
        bool,
        typer.Option("--example", help="Add a task that is sent back by the reviewer once."),
    ] = False,
    json_output: JsonFlag = False,
) -> None:
    """Make a workspace: `onceward.json`, a first task, and scripted agents that play it.

    Nothing that is there is overwritten.

    Example: `onceward init demo`
    """
    from onceward.orchestrator.starting import start_workspace

    made = start_workspace(directory, example=example)
    go = [f"cd {shlex.quote(str(directory))}"] if directory != Path() else []
    following = " && ".join([*go, f"onceward run --task {made.task_id}"])
    if json_output:
        fields = {"workspace": str(made.workspace), "made": made.made, "kept": made.kept}
        print_json({**fields, "next": following})
        return
    for path in made.made:
        print(f"made {path}")
    for path in made.kept:
        print(f"kept {path}, which was there")
    print(f"next: {following}")


def run(
    task: Annotated[
        list[str],
        typer.Option("--task", help="The task to run, such as T-0042. Repeatable, in order."),
    ],
    wait: _Wait = False,
    workspace: WorkspaceOption = None,
    json_output: _StreamJson = False,
) -> None:
    """Run tasks: implement, review, update the spec, in as many rounds as it takes.

    Ctrl-C stops cleanly and says how to resume, a second one kills. Exit 0 when all is done, 1 when
    the run failed or another orchestrator works in this workspace, 130 when it was stopped.

    Example: `onceward run --task T-0042 --task T-0043`
    """
    config = open_config(workspace, starts_agents=True)
    tasks = _load(config, task)
    _Session(config, workspace, wait=wait, json_output=json_output).run(tasks)


def resume(
    run_id: Annotated[
        str | None, typer.Option("--run", help="The run to go on with; the latest if left out.")
    ] = None,
    accept_drift: Annotated[
        bool,
        typer.Option("--accept-drift", help="Go on though files changed since the run stopped."),
    ] = False,
    retry: Annotated[
        bool, typer.Option("--retry", help="Try the step anew at which the run failed.")
    ] = False,
    wait: _Wait = False,
    workspace: WorkspaceOption = None,
    json_output: _StreamJson = False,
) -> None:
    """Go on with a run that was stopped, killed or failed; what is done is not done again.

    Example: `onceward resume --run run-20260301-093000-1a2b3c4d`
    """
    config = open_config(workspace, starts_agents=True)
    session = _Session(config, workspace, wait=wait, json_output=json_output)
    with runs_are_named():
        session.resume(run_id, accept_drift=accept_drift, retry=retry)


def open_config(workspace: Path | None, *, starts_agents: bool = False) -> Config:
    """Return what the workspace says of itself, checked as far as the command needs it."""
    from onceward.orchestrator.config import CONFIG_NAME, check_programs, load_config

    config = load_config((workspace or Path()).absolute() / CONFIG_NAME)
    if starts_agents:
        check_programs(config)
    return config


def latest_run(workspace: Path) -> str | None:
    """Return the run that began last, by its name alone: its ledger may be damaged."""
    names = sorted(path.stem for path in (workspace / "events").glob("run-*.ndjson"))
    return names[-1] if names else None


@contextmanager
def runs_are_named() -> Iterator[None]:
    """Take a run that does not exist for bad input: exit 2."""
    try:
        yield
    except RunMissing as exc:
        print_error(exc)
        raise typer.Exit(EXIT_INPUT) from exc


def _load(config: Config, names: Sequence[str]) -> list[Task]:
    from onceward.orchestrator.tasks import load_task
    from onceward.secrets import Redactor

    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        message = f"--task {twice} is named twice"
        raise InvalidArgument(message, fix="name each task once", field="task")
    variables = dict(os.environ)
    for spec in config.agents.values():  # Two agents may have secrets under the same name.
        variables |= {f"{spec.type}_{name}": value for name, value in spec.env.items()}
    options: dict[str, Any] = {"tasks_dir": config.tasks_dir, "warn": warn}
    redactor = Redactor.from_environment(variables)
    return [load_task(config.workspace, name, redactor=redactor, **options) for name in names]


class _Session:
    """One life of a run on the command line."""

    def __init__(
        self, config: Config, named: Path | None, *, wait: bool, json_output: bool
    ) -> None:
        from onceward.orchestrator.orchestrator import Orchestrator

        self._json_output = json_output
        self._on_wait = self._waiting if wait else None
        self._has_waited = False
        self._named = named
        self._teller = Teller(json_output=json_output)
        self._orchestrator = Orchestrator(config, watch=self._watch)
        self._stopped_by: signal.Signals | None = None

    def run(self, tasks: Sequence[Task]) -> None:
        self._end(self._live(lambda: self._orchestrator.run(tasks, on_wait=self._on_wait)))

    def resume(self, run_id: str | None, *, accept_drift: bool, retry: bool) -> None:
        if not self._json_output:
            self._teller.catch_up(self._before(run_id))
        try:
            result = self._live(
                lambda: self._orchestrator.resume(
                    run_id, accept_drift=accept_drift, retry=retry, on_wait=self._on_wait
                )
            )
        except Drifted as exc:
            if not self._is_accepted(exc):
                raise
            result = self._live(
                lambda: self._orchestrator.resume(run_id, accept_drift=True, retry=retry)
            )
        self._end(result)

    def _before(self, run_id: str | None) -> list[Record]:
        """Return what happened to a run so far; nothing when that cannot be told here."""
        from onceward.orchestrator.ledger import Ledger
        from onceward.seams import SystemClock, SystemFiles

        workspace = self._orchestrator.workspace
        try:
            path = workspace.ledger(run_id or latest_run(workspace.root) or "")
            return Ledger(path, files=SystemFiles(), clock=SystemClock()).read().records
        except OncewardError:  # Resuming will say what is wrong.
            return []

    def _live(self, work: Callable[[], RunResult]) -> RunResult:
        try:
            with self._teller, self._until_stopped():
                return work()
        except RunHeld as exc:
            if self._stopped_by is not None:  # It was still waiting for its turn.
                raise typer.Exit(128 + self._stopped_by) from exc
            raise

    def _waiting(self, refusal: RunHeld) -> None:
        if not self._has_waited:
            self._has_waited = True
            self._teller.notice(f"waiting: {refusal.message}")

    def _watch(self, record: Record) -> None:
        self._teller(record)
        if self._stopped_by is not None:  # The signal may have come before there was a run to stop.
            self._orchestrator.stop()

    @contextmanager
    def _until_stopped(self) -> Iterator[None]:
        """Stop cleanly at the first signal, die at the second."""
        # From a thread, since whatever a signal interrupts may hold the stream.
        notice = threading.Thread(target=self._teller.notice, args=("stopping … (again to kill)",))

        def act(number: int) -> None:
            if self._stopped_by is not None:
                # Agents that are left behind are ended by the next resume.
                self._teller.abandon()
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
            self._stopped_by = signal.Signals(number)
            self._orchestrator.stop()
            notice.start()

        try:
            with on_stop_signal(act):
                yield
        finally:
            if notice.ident is not None:
                notice.join()

    def _is_accepted(self, exc: Drifted) -> bool:
        if self._json_output:
            return False
        print_changes(exc)
        if not _is_terminal():
            return False
        print(exc.message, file=sys.stderr)
        return typer.confirm("Go on with the files as they are now?", err=True)

    def _end(self, result: RunResult) -> None:
        """Say how it ended and how to go on, and exit accordingly."""
        is_done = result.status == "done"
        again = None if is_done else self._command(result)
        if self._json_output:
            fields = {"run_id": result.run_id, "status": result.status, "reason": result.reason}
            was = {"was_complete": result.was_complete, "next": again}
            unchecked = list(result.unchecked)
            self._teller.print_json({"kind": "result", **fields, **was, "unchecked": unchecked})
        elif result.was_complete:
            self._teller.say(f"{result.run_id} is complete; there is nothing to do")
        elif result.status == "stopped":
            print(f"stopped; go on with `{again}`", file=sys.stderr)
        elif not is_done:
            fix = f"see `onceward runs show {result.run_id}`, then try again with `{again}`"
            print_error(OncewardError(f"{result.run_id} failed: {result.reason}", fix=fix))
        if result.status == "stopped" and self._stopped_by is not None:
            raise typer.Exit(128 + self._stopped_by)
        if not is_done:
            raise typer.Exit(1)

    def _command(self, result: RunResult) -> str:
        words = ["onceward", "resume", "--run", result.run_id]
        words += ["--workspace", str(self._named)] if self._named is not None else []
        return shlex.join([*words, *(["--retry"] if result.status == "failed" else [])])


def print_changes(drifted: Drifted) -> None:
    """Name the first changed files on stderr, and how many more there are."""
    from onceward.orchestrator.transcript import shown

    changes: Any = drifted.context.get("changes", ())
    for change in changes[:CHANGES_SHOWN_MAX]:
        print(f"  {shown(change)}", file=sys.stderr)
    if len(changes) > CHANGES_SHOWN_MAX:
        print(f"  and {len(changes) - CHANGES_SHOWN_MAX} more", file=sys.stderr)


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _silence() -> None:
    """Let nothing that is still buffered fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Teller:
    """Tells a run as it goes: a transcript, with a progress line on a terminal, or JSON lines."""

    def __init__(self, *, json_output: bool) -> None:
        """Write to stdout, whatever that is."""
        from onceward.orchestrator.transcript import Progress
        from onceward.seams import SystemClock

        self._json_output = json_output
        self._progress = Progress()
        self._clock = SystemClock()
        self._live: Any = None
        self._is_heard = True

    def __enter__(self) -> Self:
        if not self._json_output and sys.stdout.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(highlight=False)
            self._live = Live(
                self, console=console, refresh_per_second=REFRESHES_PER_SECOND, transient=True
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        live, self._live = self._live, None
        if live is not None:
            with suppress(OSError):  # The terminal may be gone.
                live.stop()

    def __call__(self, record: Record) -> None:
        """Tell one record."""
        from onceward.orchestrator.transcript import line_of

        if self._json_output:
            self.print_json(record)
            return
        self._progress.take(record)
        line = line_of(record, self._progress)
        if line is not None:
            self.say(line)

    def catch_up(self, records: Sequence[Record]) -> None:
        """Know what was told in an earlier life of the run."""
        from onceward.orchestrator.transcript import Progress

        self._progress = Progress.of(records)

    def __rich__(self) -> Any:  # noqa: ANN401 - rich is imported where it is used
        """Return the progress line, as it is now."""
        from rich.text import Text

        return Text(self._progress.line(self._clock.now()), style="dim", no_wrap=True)

    def say(self, line: str) -> None:
        """Write a line above the progress line."""
        if self._live is None:
            self._write(lambda: print(line, flush=True))
            return
        from rich.text import Text

        self._write(lambda: self._live.console.print(Text(line), soft_wrap=True))

    def notice(self, text: str) -> None:
        """Say something that is no part of the transcript."""
        if self._live is not None:
            self.say(text)
        else:
            # In one piece: the transcript goes on meanwhile, and may go to the same place.
            print(f"{text}\n", end="", file=sys.stderr, flush=True)

    def abandon(self) -> None:
        """Give the terminal its cursor back, as far as that is possible inside a signal handler."""
        if self._live is not None:
            with suppress(OSError, RuntimeError):  # Whatever was interrupted may hold the stream.
                self._live.console.show_cursor()

    def print_json(self, value: Record) -> None:
        """Write a line for machines."""
        self._write(lambda: print_json(value))

    def _write(self, write: Callable[[], None]) -> None:
        if not self._is_heard:
            return
        try:
            write()
        except OSError:
            # Whoever read has gone; that is no reason for a run to end.
            self._is_heard = False
            _silence()
