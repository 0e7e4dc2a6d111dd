"""`onceward lab`: serve the Experiment Lab, or request one judgement and wait for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from onceward.cli.interruptible_wait import ExpectedSubmissions, InterruptibleWait
from onceward.cli.lab_server import (
    AllowMoreRoot,
    AllowRoot,
    LabServer,
    allowed_roots,
    finish,
    open_lab,
)
from onceward.cli.listen_address import (
    AllowExternal,
    AllowHost,
    Host,
    OpenPage,
    Port,
    PublicUrl,
    RequireToken,
    ServerJson,
    TrustedProxy,
    check_listen_address,
)
from onceward.cli.output import CommandGroup, HelpfulGroup
from onceward.cli.stop_signals import until_stopped
from onceward.errors import InvalidArgument
from onceward.version import __version__

_SERVING: Final = f"Onceward {__version__}: the Lab is at {{url}} - Ctrl-C stops it"

# --- the options of the Lab ---------------------------------------------------------------------

_Session = Annotated[
    str | None,
    typer.Option("--session", help="Use this session; created if missing. Default: a new session."),
]
_ExitAfterSubmit = Annotated[
    int | None,
    typer.Option(
        "--exit-after-submit",
        help="Stop after this many new submissions. Default: 0, never.",
        min=0,
    ),
]
_ServeOn = Annotated[
    bool, typer.Option("--stay-open", help="Cancel --exit-after-submit: serve until Ctrl-C.")
]
_StayOpen = Annotated[
    bool,
    typer.Option(
        "--stay-open",
        help="Keep serving after the result is printed, until Ctrl-C; exit 0. A result that was "
        "recorded before is printed without serving. Default: exit.",
    ),
]
_RequireOverall = Annotated[
    bool, typer.Option("--require-overall", help="Require an overall rating of each run.")
]
_Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", help="Give up after this many seconds; exit 1. Default: never.", min=0
    ),
]
_ResultJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print two lines of JSON: addresses and ids once the server answers, then the result.",
    ),
]


class _ServeFirst(HelpfulGroup):
    """A group that serves when no command is named: `onceward lab --port 0`."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - Typer's signature
        """Run `serve` when no command is named."""
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


app: typer.Typer = CommandGroup(
    cls=_ServeFirst,
    add_completion=False,
    rich_markup_mode="markdown",
    help="Serve the Experiment Lab, or request a judgement and wait; `serve` may be left out. "
    "Example: `onceward lab compare out/a out/b --question 'Is B clearer?'`",
)


@app.command("serve")
def serve_lab(
    host: Host = "127.0.0.1",
    port: Port = None,
    allow_external: AllowExternal = False,
    allow_host: AllowHost = None,
    require_token: RequireToken = False,
    public_url: PublicUrl = None,
    trusted_proxy: TrustedProxy = None,
    allow_root: AllowRoot = None,
    session: _Session = None,
    exit_after_submit: _ExitAfterSubmit = None,
    stay_open: _ServeOn = False,
    open_page: OpenPage = None,
    json_output: ServerJson = False,
) -> None:
    """Serve the Lab: pages on which people import, review and compare runs, and read results.

    It serves until Ctrl-C, or until --exit-after-submit is reached; exit 0. A run is a directory of
    an agent's output, or a video.

    Example: `onceward lab --allow-root ~/runs --port 0 --no-open`
    """
    address = check_listen_address(
        host,
        port,
        allow_host,
        external=allow_external,
        require_token=require_token,
        public_url=public_url,
        trusted_proxy=trusted_proxy,
    )
    roots = allowed_roots(allow_root)
    wanted = 0 if stay_open or exit_after_submit is None else exit_after_submit
    with until_stopped():
        lab = open_lab(roots, session, exit_after_submit=wanted)
        server = LabServer(lab, address, open_page=open_page, json_output=json_output)
        waiting = InterruptibleWait(ExpectedSubmissions(lab, wanted)) if wanted else None
        server.run(_SERVING, "/lab", waiting=waiting)


@app.command()
def review(
    path: Annotated[Path, typer.Argument(help="The run: its directory, or its video.")],
    host: Host = "127.0.0.1",
    port: Port = None,
    allow_external: AllowExternal = False,
    allow_host: AllowHost = None,
    require_token: RequireToken = False,
    public_url: PublicUrl = None,
    trusted_proxy: TrustedProxy = None,
    allow_root: AllowMoreRoot = None,
    session: _Session = None,
    timeout: _Timeout = None,
    require_overall: _RequireOverall = False,
    stay_open: _StayOpen = False,
    open_page: OpenPage = None,
    json_output: _ResultJson = False,
) -> None:
    """Request a review of one run: serve its page, wait for a person's review, and print it.

    With --session, an unfinished review of the same run is resumed, unless the session has
    requested another review or comparison since; one that was finished while no command waited is
    printed at once. After a result is printed, the same command requests a new review. Exit 0:
    there is a result. 1: --timeout has passed. 2: PATH is not a run. 130: stopped by a signal
    before a result.

    Example: `onceward lab review out/a --json`
    """
    from onceward.cli.lab_tasks import review_task

    address = check_listen_address(
        host,
        port,
        allow_host,
        external=allow_external,
        require_token=require_token,
        public_url=public_url,
        trusted_proxy=trusted_proxy,
    )
    lab = open_lab(
        allowed_roots(allow_root, path), session, exit_after_submit=0 if stay_open else 1
    )
    server = LabServer(lab, address, open_page=open_page, json_output=json_output)
    task = review_task(lab, path)
    task.page += _query(requireOverall=require_overall)
    finish(server, task, timeout, stay_open=stay_open)


@app.command()
def compare(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Two to nine runs, each a directory or a video; the first is the baseline."
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="Name under which the Lab groups results.")
    ] = None,
    hypothesis: Annotated[str | None, typer.Option(help="The expected result.")] = None,
    topic: Annotated[str | None, typer.Option(help="What the runs are about.")] = None,
    question: Annotated[
        list[str] | None,
        typer.Option(help="A question: yes, no or unsure; `text:…` asks for a text. Repeatable."),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    allow_external: AllowExternal = False,
    allow_host: AllowHost = None,
    require_token: RequireToken = False,
    public_url: PublicUrl = None,
    trusted_proxy: TrustedProxy = None,
    allow_root: AllowMoreRoot = None,
    session: _Session = None,
    timeout: _Timeout = None,
    require_overall: _RequireOverall = False,
    good_bad: Annotated[
        bool, typer.Option("--good-bad", help='Require a winner: no tie, no "all bad".')
    ] = False,
    stay_open: _StayOpen = False,
    open_page: OpenPage = None,
    json_output: _ResultJson = False,
) -> None:
    """Request a comparison of runs: serve its page, wait for a person's decision, and print it.

    With --session, an unfinished comparison of the same runs is resumed, unless the session has
    requested another review or comparison since, or a name, hypothesis, topic or questions are
    passed that differ. One that was finished while no command waited is printed at once. After a
    result is printed, the same command requests a new comparison. Exit 0: there is a result. 1:
    --timeout has passed. 2: a path is not a run. 130: stopped by a signal before a result.

    Example: `onceward lab compare out/a out/b --name hooks --question "Is B clearer?" --json`
    """
    from onceward.cli.lab_tasks import ComparisonDetails, compare_task

    if len(paths) < 2:
        message = "a comparison needs two runs or more"
        raise InvalidArgument(message, fix="pass the baseline and at least one run", field="paths")
    address = check_listen_address(
        host,
        port,
        allow_host,
        external=allow_external,
        require_token=require_token,
        public_url=public_url,
        trusted_proxy=trusted_proxy,
    )
    lab = open_lab(
        allowed_roots(allow_root, *paths), session, exit_after_submit=0 if stay_open else 1
    )
    server = LabServer(lab, address, open_page=open_page, json_output=json_output)
    asked = ComparisonDetails(
        name=name, hypothesis=hypothesis, topic=topic, questions=question or []
    )
    task = compare_task(lab, paths, asked)
    task.page += _query(requireOverall=require_overall, goodBadMode=good_bad)
    finish(server, task, timeout, stay_open=stay_open)


def _query(**flags: bool) -> str:
    """Return the query of a page, with the parameter names of the original."""
    given = "&".join(f"{name}=1" for name, is_set in flags.items() if is_set)
    return f"?{given}" if given else ""
