"""`onceward init`, `run` and `resume`: create a workspace, run tasks, and resume after a crash."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from onceward.cli.output import JsonFlag, print_error, print_json, warn
from onceward.cli.run_output import RunPrinter
from onceward.errors import Drifted, InvalidArgument, OncewardError, RunHeld, RunMissing
from onceward.system.signals import on_stop_signal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from onceward.journal import Record
    from onceward.orchestrator.config import WorkspaceConfig
    from onceward.orchestrator.models import AgentTask, RunResult

#: How many changed files are listed before a question or an error.
CHANGES_SHOWN_MAX: Final = 10
DIFF_LINES_SHOWN_MAX: Final = 100
EXIT_INPUT: Final = 2
#: The answers when files changed, and the option of each.
_DECISIONS: Final = {"keep": "accept_drift", "redo": "redo", "stop": None}
_CHOICES: Final = """\
  keep  go on from the files as they are; they are reviewed again
  redo  do the steps again whose files changed; your files are copied to state/kept first
  stop  change nothing"""

WorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace", help="Directory with `onceward.json`. Default: the current directory."
    ),
]
_Wait = Annotated[
    bool,
    typer.Option(
        "--wait",
        help="Wait until another orchestrator of this workspace ends, then start. Default: exit 1.",
    ),
]
_StreamJson = Annotated[
    bool,
    typer.Option("--json", help="Print every ledger record as a line of JSON, then the result."),
]


def init(
    directory: Annotated[
        Path, typer.Argument(help="Directory of the workspace; created if missing.")
    ] = Path(),
    example: Annotated[
        bool,
        typer.Option(
            "--example", help="Add a second task, whose first result the scripted reviewer rejects."
        ),
    ] = False,
    json_output: JsonFlag = False,
) -> None:
    """Create a workspace: `onceward.json`, a first task and scripted agents.

    Existing files are kept, and `.gitignore` gets the folders that runs write. If the directory has
    an `onceward.json` already, nothing is written; exit 1.

    Example: `onceward init demo`
    """
    from onceward.orchestrator.scaffold import create_workspace

    made = create_workspace(directory, example=example)
    go = [f"cd {shlex.quote(str(directory))}"] if directory != Path() else []
    following = " && ".join([*go, f"onceward run --task {made.task_id}"])
    if json_output:
        fields = {"workspace": str(made.workspace), "made": made.made, "kept": made.kept}
        print_json({**fields, "next": following})
        return
    for path in made.made:
        print(f"made {path}")
    for path in made.kept:
        print(f"kept the existing {path}")
    print(f"next: {following}")


def run(
    task: Annotated[
        list[str],
        typer.Option(
            "--task",
            help="Required. Id of a task in `tasks/`, such as T-0042. Repeatable, in this order.",
        ),
    ],
    wait: _Wait = False,
    workspace: WorkspaceOption = None,
    json_output: _StreamJson = False,
) -> None:
    """Run tasks, one after the other: implement and review until approved, then update the spec.

    Every call starts a new run; `onceward resume` goes on with an earlier one. The run fails when a
    task is not approved within `limits.rounds_max` rounds of `onceward.json` (default 5), or when a
    step fails for good. Later tasks are then not begun.

    Ctrl-C stops cleanly and prints how to resume; a second one kills. Exit 0: all is done. 1: the
    run failed, or another orchestrator runs in this workspace. 2: bad input. 130: stopped by
    Ctrl-C. 143: by SIGTERM.

    Example: `onceward run --task T-0042 --task T-0043`
    """
    config = open_config(workspace, starts_agents=True)
    tasks = _load(config, task)
    _Session(config, workspace, wait=wait, json_output=json_output).run(tasks)


def resume(
    run_id: Annotated[
        str | None, typer.Option("--run", help="The id of the run. Default: the latest run.")
    ] = None,
    accept_drift: Annotated[
        bool,
        typer.Option(
            "--accept-drift",
            help="Keep changed files as they are and review them again; copies go to `state/kept`. "
            "Not with --redo.",
        ),
    ] = False,
    redo: Annotated[
        bool,
        typer.Option(
            "--redo",
            help="Repeat the steps whose files changed; copies of these files go to `state/kept`. "
            "Not with --accept-drift.",
        ),
    ] = False,
    retry: Annotated[
        bool,
        typer.Option(
            "--retry",
            help="Resume a failed run: retry the failed step, with as many rounds again. "
            "Default: print why it failed, exit 1.",
        ),
    ] = False,
    wait: _Wait = False,
    workspace: WorkspaceOption = None,
    json_output: _StreamJson = False,
) -> None:
    """Resume a run that was stopped or killed, or, with --retry, one that failed.

    Completed steps are not repeated; a run that is done stays unchanged. A step that was at work is
    sent again, on the files as they are: changed ones are copied to `state/kept`, nothing is asked,
    and --accept-drift and --redo have no effect.

    If no step was at work and files changed since the run recorded them, pass --accept-drift or
    --redo; without them it asks on a terminal, else exits with 3. Other exit codes: 0 done, 1
    failed or another orchestrator holds the workspace, 2 bad input or unknown run, 130 stopped by
    Ctrl-C, 143 by SIGTERM.

    Example: `onceward resume --run run-20260301-093000-1a2b3c4d`
    """
    config = open_config(workspace, starts_agents=True)
    session = _Session(config, workspace, wait=wait, json_output=json_output)
    if accept_drift and redo:
        message = "--accept-drift and --redo exclude each other; nothing was resumed"
        raise InvalidArgument(message, fix="pass one of them", field="redo")
    decision = "accept_drift" if accept_drift else "redo" if redo else None
    with runs_are_named():
        session.resume(run_id, decision, retry=retry)


def open_config(workspace: Path | None, *, starts_agents: bool = False) -> WorkspaceConfig:
    """Load the workspace's configuration, checked as far as the command needs it."""
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
    """Exit with 2 for a run that does not exist."""
    try:
        yield
    except RunMissing as exc:
        print_error(exc)
        raise typer.Exit(EXIT_INPUT) from exc


def _load(config: WorkspaceConfig, names: Sequence[str]) -> list[AgentTask]:
    from onceward.orchestrator.tasks import load_task
    from onceward.system.redaction import Redactor

    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        message = f"--task {twice} was passed twice"
        raise InvalidArgument(message, fix="pass each task once", field="task")
    variables = dict(os.environ)
    for spec in config.agents.values():  # Two agents may have secrets under the same name.
        variables |= {f"{spec.type}_{name}": value for name, value in spec.env.items()}
    options: dict[str, Any] = {"tasks_dir": config.tasks_dir, "warn": warn}
    redactor = Redactor.from_environment(variables)
    return [load_task(config.workspace, name, redactor=redactor, **options) for name in names]


class _Session:
    """One process of a run on the command line."""

    def __init__(
        self, config: WorkspaceConfig, named: Path | None, *, wait: bool, json_output: bool
    ) -> None:
        from onceward.orchestrator.orchestrator import Orchestrator

        self._json_output = json_output
        self._on_wait = self._waiting if wait else None
        self._has_waited = False
        self._named = named
        self._printer = RunPrinter(json_output=json_output)
        self._orchestrator = Orchestrator(config, watch=self._watch)
        self._stopped_by: signal.Signals | None = None

    def run(self, tasks: Sequence[AgentTask]) -> None:
        self._end(self._live(lambda: self._orchestrator.run(tasks, on_wait=self._on_wait)))

    def resume(self, run_id: str | None, decision: str | None, *, retry: bool) -> None:
        if not self._json_output:
            self._printer.catch_up(self._before(run_id))
        try:
            result = self._resumed(run_id, decision, retry=retry)
        except Drifted as exc:
            chosen = self._asked_about(exc)
            if chosen is None:
                raise
            result = self._resumed(run_id, chosen, retry=retry)
        self._end(result)

    def _resumed(self, run_id: str | None, decision: str | None, *, retry: bool) -> RunResult:
        how = {decision: True} if decision is not None else {}
        work = self._orchestrator.resume
        return self._live(lambda: work(run_id, retry=retry, on_wait=self._on_wait, **how))

    def _before(self, run_id: str | None) -> list[Record]:
        """Return the records of a run so far; none if the ledger cannot be read."""
        from onceward.orchestrator.ledger import Ledger
        from onceward.system import SystemClock, SystemFiles

        workspace = self._orchestrator.workspace
        try:
            path = workspace.ledger(run_id or latest_run(workspace.root) or "")
            return Ledger(path, files=SystemFiles(), clock=SystemClock()).read().records
        except OncewardError:  # The resume itself reports the error.
            return []

    def _live(self, work: Callable[[], RunResult]) -> RunResult:
        try:
            with self._printer, self._until_stopped():
                return work()
        except RunHeld as exc:
            if self._stopped_by is not None:  # It was still waiting for the workspace.
                raise typer.Exit(128 + self._stopped_by) from exc
            raise

    def _waiting(self, refusal: RunHeld) -> None:
        if not self._has_waited:
            self._has_waited = True
            self._printer.notice(f"waiting: {refusal.message}")

    def _watch(self, record: Record) -> None:
        self._printer(record)
        if self._stopped_by is not None:  # The signal may have come before there was a run to stop.
            self._orchestrator.stop()

    @contextmanager
    def _until_stopped(self) -> Iterator[None]:
        """Stop cleanly at the first signal, die at the second."""
        # From a thread, since whatever a signal interrupts may hold the stream.
        notice = threading.Thread(target=self._printer.notice, args=("stopping … (again to kill)",))

        def act(number: int) -> None:
            if self._stopped_by is not None:
                # Agents that are left behind are ended by the next resume.
                self._printer.abandon()
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

    def _asked_about(self, exc: Drifted) -> str | None:
        """Show the changes and ask what to do; None to stop, or without a terminal."""
        if self._json_output:
            return None
        print_changes(exc)
        if not _is_terminal():
            return None
        _print_diff(exc)
        print(exc.message, file=sys.stderr)
        print(_CHOICES, file=sys.stderr)
        while True:
            answer = str(typer.prompt("keep, redo or stop?", err=True, default="stop")).lower()
            if answer in _DECISIONS:
                return _DECISIONS[answer]

    def _end(self, result: RunResult) -> None:
        """Print how the run ended and how to continue, and set the exit code."""
        is_done = result.status == "done"
        again = None if is_done else self._command(result)
        if self._json_output:
            fields = {"run_id": result.run_id, "status": result.status, "reason": result.reason}
            was = {"was_complete": result.was_complete, "next": again}
            unchecked = list(result.unchecked)
            self._printer.print_json({"kind": "result", **fields, **was, "unchecked": unchecked})
        elif result.was_complete:
            self._printer.say(f"{result.run_id} is complete; there is nothing to do")
        elif result.status == "stopped":
            print(f"stopped; resume with `{again}`", file=sys.stderr)
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
    from onceward.orchestrator.transcript import printable

    changes: Any = drifted.context.get("changes", ())
    for change in changes[:CHANGES_SHOWN_MAX]:
        print(f"  {printable(change)}", file=sys.stderr)
    if len(changes) > CHANGES_SHOWN_MAX:
        print(f"  and {len(changes) - CHANGES_SHOWN_MAX} more", file=sys.stderr)


def _print_diff(drifted: Drifted) -> None:
    """Show on stderr how files changed, as far as it fits on a few screens."""
    lines = str(drifted.context.get("diff", "")).splitlines()
    for line in lines[:DIFF_LINES_SHOWN_MAX]:
        # Spaces matter in a diff; what else is not printed could move the cursor.
        print(
            "".join(each if each.isprintable() else " " for each in line.expandtabs()),
            file=sys.stderr,
        )
    if len(lines) > DIFF_LINES_SHOWN_MAX:
        print(f"… {len(lines) - DIFF_LINES_SHOWN_MAX} more lines", file=sys.stderr)


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()
