"""`onceward worker`: run an app's consumers until stopped, or once until no message is due."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager, nullcontext
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.cli.app_loading import load_app
from onceward.cli.output import ConfigFile, print_json
from onceward.cli.stop_signals import on_stop
from onceward.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from onceward.workers import App, WorkerResult
    from onceward.workers.alert_models import AlertRule
    from onceward.workers.retention import Retention
    from onceward.workers.telemetry import Telemetry


#: Why a cursor is not at its end, by the state that the worker reports.
_LEFT: Final = {
    "more": "was not finished",
    "waiting": "waits for a retry",
    "elsewhere": "is paused, or another worker has it",
    "full": "waits for a free slot",
    "trouble": "is in trouble; see the log",
}

_ResultJson = Annotated[
    bool,
    typer.Option(
        "--json", help="With --once and one process: print the result as JSON. Else: no effect."
    ),
]
_Processes = Annotated[
    int,
    typer.Option(help="Number of processes; one that dies is started again.", min=1, max=256),
]
_Threads = Annotated[
    int,
    typer.Option(help="Threads per process; each works on one cursor at a time.", min=1, max=256),
]
_StopSeconds = Annotated[
    float,
    typer.Option(
        help="Seconds that a stop waits for running handlers. After that their transactions are "
        "rolled back, and their messages are delivered again.",
        min=0,
    ),
]
_MetricsPort = Annotated[
    int | None,
    typer.Option(
        help="Serve `/metrics` on this port; 0 picks a free one. Default: no metrics.",
        min=0,
        max=65535,
    ),
]
_MetricsHost = Annotated[
    str,
    typer.Option(
        help="Address to serve metrics on. Other users and machines need the token that "
        "`onceward token show` prints."
    ),
]


def worker(
    target: Annotated[str, typer.Argument(help="The app, as `module:name`.")],
    once: Annotated[
        bool,
        typer.Option("--once", help="Stop when no message is due. Default: run until a signal."),
    ] = False,
    processes: _Processes = 1,
    threads: _Threads = 4,
    stop_seconds: _StopSeconds = 30.0,
    log: Annotated[
        str, typer.Option(help="Log format: `json`, `plain`, or `auto` (plain on a terminal).")
    ] = "auto",
    metrics_port: _MetricsPort = None,
    metrics_host: _MetricsHost = "127.0.0.1",
    config: ConfigFile = None,
    json_output: _ResultJson = False,
) -> None:
    """Run an app's consumers until SIGTERM or Ctrl-C, which let running handlers finish.

    It uses the app's store. With --once, exit 0 means that every cursor is at its end: each message
    was processed or became a dead letter. Exit 1: one waits for a retry, is paused, is held by
    another worker, or its source fails.

    With or without --once, exit 1 also means that a handler did not end within --stop-seconds, or
    that a source is refused at the end, because reading it could lose messages: see `onceward db
    prepare`. Other consumers go on meanwhile. Exit 0 after a stop without these. Exit 2: the app
    cannot be loaded.

    Example: `onceward worker shop:app --processes 3`
    """
    if log not in ("auto", "json", "plain"):
        message = f"--log: {log!r} is not a log format; no worker was started"
        raise InvalidArgument(message, fix="pass json, plain or auto", field="log")
    from onceward.system.logs import set_up
    from onceward.workers.alert_rules import read_rules
    from onceward.workers.retention import read_retention

    set_up(as_json=log == "json" or (log == "auto" and not sys.stderr.isatty()))
    found = load_app(target)
    rules, retention = read_rules(config), read_retention(config)
    monitoring = _Monitoring(found, () if once else rules, metrics_port, metrics_host)

    def run_process() -> int:
        is_single = processes == 1
        result = _run_worker(
            found,
            once=once,
            threads=threads,
            stop_seconds=stop_seconds,
            retention=retention,
            monitoring=monitoring if is_single else None,
        )
        if once and is_single:
            _print(result, json_output=json_output)
        return 1 if (once and result.unfinished) or not result.is_clean else 0

    if processes == 1:
        code = run_process()
    else:
        from onceward.workers.worker_processes import WorkerSupervisor

        # Counters are per process, so the metrics of several processes come from the store alone.
        watchers = [] if once else [monitoring.until_stopped]
        code = WorkerSupervisor([*[run_process] * processes, *watchers], once=once).run()
    if code:
        raise typer.Exit(code)


class _Monitoring:
    """Alerts, and optionally metrics, served while a worker runs."""

    def __init__(self, found: App, rules: Sequence[AlertRule], port: int | None, host: str) -> None:
        self._found = found
        self._rules = rules
        self._port = port
        self._host = host

    @contextmanager
    def running(self, telemetry: Telemetry | None) -> Iterator[None]:
        """Evaluate alerts and serve metrics while the block runs."""
        from onceward.workers.alert_delivery import alerting
        from onceward.workers.http import serve_metrics
        from onceward.workers.metrics import MetricsPage

        with ExitStack() as stack:
            stack.enter_context(alerting(lambda: self._found.ow, self._rules))
            if self._port is not None:
                timings = telemetry.timings if telemetry else None
                page = MetricsPage(
                    lambda: self._found.ow, telemetry=telemetry, timings=timings
                ).page
                url = stack.enter_context(serve_metrics(self._port, page, host=self._host))
                print(f"metrics at {url}", file=sys.stderr, flush=True)
            yield

    def until_stopped(self) -> int:
        """Evaluate alerts and serve metrics until a stop signal, in a separate process."""
        stopped = SimpleQueue[None]()
        with self.running(None), on_stop(lambda: stopped.put(None)):
            stopped.get()
        return 0


def _run_worker(
    found: App,
    *,
    once: bool,
    threads: int,
    stop_seconds: float,
    retention: Retention,
    monitoring: _Monitoring | None,
) -> WorkerResult:
    """Run the worker of one process until a stop signal."""
    from onceward.workers import Worker

    worker = Worker(found, threads=threads, stop_seconds=stop_seconds, retention=retention)
    running = monitoring.running(worker.telemetry) if monitoring else nullcontext()
    with on_stop(worker.stop), running:
        return worker.run(once=once)


def _print(result: WorkerResult, *, json_output: bool) -> None:
    if json_output:
        states = dict(result.states)
        print_json({"messages": result.messages, "left": list(result.unfinished), "states": states})
        return
    print("1 message" if result.messages == 1 else f"{result.messages} messages")
    for name in result.unfinished:
        state = result.states.get(name)
        print(f"left: {name} {_LEFT[state] if state else 'cannot be worked; see the log'}")
