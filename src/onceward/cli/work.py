"""`onceward work`: run an app's consumers until told to stop, or until there is nothing to do."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager, nullcontext
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from onceward.cli.apps import load_app
from onceward.cli.output import ConfigFile, JsonFlag, print_json
from onceward.cli.stopping import on_stop
from onceward.cli.work_prepare import prepare
from onceward.cli.work_reconcile import reconcile
from onceward.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from onceward.workers import App, Worked
    from onceward.workers.alert_models import Rule
    from onceward.workers.reports import Reports
    from onceward.workers.retention import Retention


class _RunFirst(TyperGroup):
    """A group whose first word may also be an app: `onceward work shop:app`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - Typer's signature
        """Take a word that is no command for the app to run."""
        if args and args[0] not in self.commands and ":" in args[0]:
            args = ["run", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_RunFirst,
    add_completion=False,
    rich_markup_mode="markdown",
    help="Run an app's consumers, prepare their tables, and report what is only half done. "
    "Example: `onceward work shop:app --processes 3`; `onceward work run --help` has its options.",
)

#: What became of a cursor that is not at its end.
_LEFT: Final = {
    "more": "was not finished",
    "waiting": "waits for a retry",
    "elsewhere": "is paused, or another worker has it",
    "full": "waits for a free slot",
    "trouble": "is in trouble; see the log",
}


@app.callback(invoke_without_command=True)
def show_help(ctx: typer.Context) -> None:
    """Show what there is when nothing is named."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


app.command()(reconcile)
app.command()(prepare)


@app.command()
def run(
    target: Annotated[str, typer.Argument(help="Where the app is: `module:name`.")],
    once: Annotated[
        bool, typer.Option("--once", help="Stop when there is nothing left to do now.")
    ] = False,
    processes: Annotated[int, typer.Option(help="How many processes.", min=1, max=256)] = 1,
    threads: Annotated[int, typer.Option(help="Threads in each process.", min=1, max=256)] = 4,
    stop_seconds: Annotated[
        float, typer.Option(help="How long a stop waits for handlers that run.", min=0)
    ] = 30.0,
    log: Annotated[
        str, typer.Option(help="`json`, `plain`, or `auto`: plain on a terminal.")
    ] = "auto",
    metrics_port: Annotated[
        int | None,
        typer.Option(help="Serve `/metrics` on this port; 0 is any free one.", min=0, max=65535),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="Address on which metrics are served.")
    ] = "127.0.0.1",
    config: ConfigFile = None,
    json_output: JsonFlag = False,
) -> None:
    """Work through the cursors of an app: `run` may be left out.

    SIGTERM or Ctrl-C lets running handlers finish and gives the leases back. With --once the exit
    code is 0 when every cursor is at its end, 1 when one is not: it waits for a retry, is paused or
    held elsewhere, or its source is in trouble.

    Example: `onceward work shop:app --processes 3`
    """
    if log not in ("auto", "json", "plain"):
        message = f"--log {log!r} is not a form of log"
        raise InvalidArgument(message, fix="say json, plain or auto", field="log")
    from onceward.logs import set_up
    from onceward.workers.alert_rules import read_rules
    from onceward.workers.retention import read_retention

    set_up(as_json=log == "json" or (log == "auto" and not sys.stderr.isatty()))
    found = load_app(target)
    rules, retention = read_rules(config), read_retention(config)
    beside = _Beside(found, () if once else rules, metrics_port, metrics_host)

    def work() -> int:
        is_alone = processes == 1
        worked = _work(
            found,
            once=once,
            threads=threads,
            stop_seconds=stop_seconds,
            retention=retention,
            beside=beside if is_alone else None,
        )
        if once and is_alone:
            _print(worked, json_output=json_output)
        return 1 if (once and worked.left) or not worked.is_clean else 0

    if processes == 1:
        code = work()
    else:
        from onceward.workers.fleet import Fleet

        # Counters belong to a process: what is served for all of them is what the store knows.
        watchers = [] if once else [beside.until_stopped]
        code = Fleet([*[work] * processes, *watchers], once=once).run()
    if code:
        raise typer.Exit(code)


class _Beside:
    """What runs beside the work: alerts, and metrics if they are wanted."""

    def __init__(self, found: App, rules: Sequence[Rule], port: int | None, host: str) -> None:
        self._found = found
        self._rules = rules
        self._port = port
        self._host = host

    @contextmanager
    def running(self, reports: Reports | None) -> Iterator[None]:
        """Evaluate alerts and serve metrics while the block runs."""
        from onceward.workers.alert_sending import alerting
        from onceward.workers.http import serve_metrics
        from onceward.workers.metrics import Metrics

        with ExitStack() as stack:
            stack.enter_context(alerting(lambda: self._found.ow, self._rules))
            if self._port is not None:
                timings = reports.timings if reports else None
                page = Metrics(lambda: self._found.ow, reports=reports, timings=timings).page
                url = stack.enter_context(serve_metrics(self._port, page, host=self._host))
                print(f"metrics at {url}", file=sys.stderr, flush=True)
            yield

    def until_stopped(self) -> int:
        """Do it in a process of its own, until a signal says stop."""
        stopped = SimpleQueue[None]()
        with self.running(None), on_stop(lambda: stopped.put(None)):
            stopped.get()
        return 0


def _work(
    found: App,
    *,
    once: bool,
    threads: int,
    stop_seconds: float,
    retention: Retention,
    beside: _Beside | None,
) -> Worked:
    """Run one process's worker, until a signal says stop."""
    from onceward.workers import Worker

    worker = Worker(found, threads=threads, stop_seconds=stop_seconds, retention=retention)
    running = beside.running(worker.reports) if beside else nullcontext()
    with on_stop(worker.stop), running:
        return worker.run(once=once)


def _print(worked: Worked, *, json_output: bool) -> None:
    if json_output:
        states = dict(worked.states)
        print_json({"messages": worked.messages, "left": list(worked.left), "states": states})
        return
    print("1 message" if worked.messages == 1 else f"{worked.messages} messages")
    for name in worked.left:
        state = worked.states.get(name)
        print(f"left: {name} {_LEFT[state] if state else 'cannot be worked; see the log'}")
