"""`onceward memory capture` and `fix`: record what commands do, and what was done about it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from onceward.cli.db import StoreUrl
from onceward.cli.memory_opening import open_memory
from onceward.cli.output import JsonFlag, print_error, print_json, warn
from onceward.errors import (
    Internal,
    InvalidArgument,
    OncewardError,
    OutcomeUnknown,
    StorageError,
    StoreError,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

    from onceward.memory import Memory
    from onceward.memory.buffer import Buffer
    from onceward.memory.capture.capturing import Captured, CapturedIssue, Place
    from onceward.memory.capture.passing import Passed

Mode = Annotated[str, typer.Option(help="Who does it, such as `debugger@2`.")]
Repo = Annotated[
    str | None, typer.Option(help="The repository; without, what git says about this directory.")
]
Branch = Annotated[str | None, typer.Option(help="The branch; without, what git says.")]
_AWAY: Final = "the store is away; the command waits on disk and is recorded when it is back"
_FIX_AFTER: Final = "older records wait to be written; the fix waits on disk, after them"
_AFTER: Final = "older records wait to be written; the command waits on disk, after them"


def capture(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", help="A command and its arguments, after --.")
    ],
    mode: Mode = "",
    repo: Repo = None,
    branch: Branch = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Run a command, record its errors and warnings, and say what is known about them.

    Its output passes through; what is known comes at the end, on stderr. The exit code is that of
    the command, whether it could be recorded or not. With --json all output of the command goes to
    stderr, and stdout has one JSON object.

    Example: `onceward memory capture -- pytest -q`
    """
    from onceward.memory.capture.passing import run_through

    if not command[0].strip():
        message = "command: is empty"
        raise InvalidArgument(message, fix="write onceward memory capture -- pytest -q")
    sys.stdout.flush()
    with _raw(2 if json_output else 1) as out, _raw(2) as err:
        passed = run_through(command, out, err)
    try:
        captured = _record(passed, store, mode, repo, branch)
    except (Exception, KeyboardInterrupt) as exc:  # noqa: BLE001 - the command's result goes first
        if not _keep(passed, exc, store, mode, repo, branch):
            _tell_failure(passed, exc, json_output=json_output)
        else:
            recorded = False if isinstance(exc, StoreUnavailable) else None
            _tell_waiting(passed, _AWAY, recorded=recorded, json_output=json_output)
    else:
        if captured is None:
            _tell_waiting(passed, _AFTER, recorded=False, json_output=json_output)
        else:
            _tell(passed, captured, json_output=json_output)
    raise typer.Exit(passed.exit_code)


def fix(
    issue: Annotated[str, typer.Argument(help="The name of an issue, or its message.")],
    strategy: Annotated[str, typer.Option(help="What is done about it, in a sentence.")],
    change: Annotated[
        list[str] | None, typer.Option(help="One thing that was changed. Repeatable.")
    ] = None,
    doc: Annotated[
        list[str] | None, typer.Option(help="The URL of a document it is taken from. Repeatable.")
    ] = None,
    proposed: Annotated[
        bool, typer.Option("--proposed", help="It is an idea so far; nothing was changed.")
    ] = False,
    mode: Mode = "",
    repo: Repo = None,
    branch: Branch = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Record what was done about an issue; the next capture of its command says if it helped.

    Done again, because the issue came back after it had helped or failed, it counts again.

    Example: `onceward memory fix "KeyError: 'id'" --strategy "give every order an id"`
    """
    repo, branch = _checkout(repo, branch)
    facts: dict[str, Any] = {
        "issue": issue,
        "strategy": strategy,
        "changes": change or [],
        "docs": doc or [],
        "result": "proposed" if proposed else "applied",
    }
    with open_memory(store, mode=mode, repo=repo, branch=branch) as memory:
        recorded, is_waiting = _fix(memory, facts, mode, repo, branch)
    if is_waiting and not json_output:
        warn(_FIX_AFTER)
    if json_output:
        print_json(recorded)
        return
    is_known = recorded["entity"] == recorded["observation"] == "known"
    state = "waits" if is_waiting else "known already" if is_known else "recorded"
    guess = " (or another name, if its issue is a warning)"
    print(f"{state}: {recorded['name']}{guess if 'isNameProvisional' in recorded else ''}")
    for each in recorded["relations"]:
        if each["fate"] == "refused":
            warn(f"{each['relationType']} {each['to']}: {each['reason']}")


def _raw(descriptor: int) -> IO[bytes]:
    """Return an output of ours without a buffer; nothing if it is closed."""
    try:
        return os.fdopen(os.dup(descriptor), "wb", buffering=0)
    except OSError:
        return os.fdopen(os.open(os.devnull, os.O_WRONLY), "wb", buffering=0)


def _checkout(repo: str | None, branch: str | None) -> tuple[str, str]:
    from onceward.memory.capture.checkouts import checkout_of

    if repo is not None and branch is not None:
        return repo, branch
    found = checkout_of(Path.cwd())
    return (found.repo if repo is None else repo, found.branch if branch is None else branch)


def _record(
    passed: Passed, store: str | None, mode: str, repo: str | None, branch: str | None
) -> Captured | None:
    """Record a command; None if it waits on disk after older records."""
    from onceward.memory.capture.capturing import SOURCE
    from onceward.memory.capture.capturing import capture as record
    from onceward.memory.replaying import keep_capture

    with open_memory(store, source=SOURCE) as memory:
        place = _place(mode, repo, branch)
        _, is_waiting = _in_line(memory, lambda buffer: keep_capture(buffer, memory, passed, place))
        # What is written by now is recorded again: that changes nothing, and tells what is known.
        return None if is_waiting else record(memory, passed, place)


def _fix(
    memory: Memory, facts: dict[str, Any], mode: str, repo: str, branch: str
) -> tuple[dict[str, Any], bool]:
    """Record a fix; returns the answer, and whether it waits on disk after older records."""
    from onceward.memory.capture.fixing import apply_fix
    from onceward.memory.offline import foretold
    from onceward.memory.replaying import keep_fix
    from onceward.seams import SystemClock, timestamp

    dated = {**facts, "ts": timestamp(SystemClock().now())}
    where = (memory.origin.source, mode, repo, branch)
    # Before it waits: errors of a replay are only logged.
    waiting = foretold(memory, "record_fix", dated, where)
    was_kept, is_waiting = _in_line(memory, lambda buffer: keep_fix(buffer, memory, dated, where))
    if is_waiting:
        return waiting, True
    recorded = apply_fix(memory, **dated)
    # A replay may have written it a moment ago. What was new then cannot be told any more.
    fates = {name: waiting[name] for name in ("entity", "observation")} if was_kept else {}
    return {**recorded, **fates}, False


def _in_line(memory: Memory, keep: Callable[[Buffer], object]) -> tuple[bool, bool]:
    """Let a call wait after records that wait already; returns whether it did, and still does."""
    from onceward.cli.memory_opening import buffer_of, replay_waiting

    buffer = buffer_of(memory.graph.store)
    try:
        if not buffer.pending():
            return False, False
        keep(buffer)
        # The other process may have ended meanwhile.
        replay_waiting(memory)
        return True, bool(buffer.pending())
    except (StoreError, StorageError):  # No place to wait: out of order beats not at all.
        return False, False


def _place(mode: str, repo: str | None, branch: str | None) -> Place:
    from onceward.memory.capture.capturing import Place

    repo, branch = _checkout(repo, branch)
    return Place(cwd=str(Path.cwd()), mode=mode, repo=repo, branch=branch)


def _keep(
    passed: Passed,
    exc: BaseException,
    store: str | None,
    mode: str,
    repo: str | None,
    branch: str | None,
) -> bool:
    """Let a command wait on disk whose store is away; returns whether it does."""
    if not isinstance(exc, StoreUnavailable | OutcomeUnknown):
        return False
    from onceward.cli.memory_opening import buffer_of
    from onceward.handle import Onceward
    from onceward.memory import Memory
    from onceward.memory.capture.checkouts import current_root
    from onceward.memory.replaying import keep_capture
    from onceward.stores import open_store

    try:
        memory = Memory(Onceward(open_store(store)), root=current_root())
        keep_capture(buffer_of(memory.graph.store), memory, passed, _place(mode, repo, branch))
    except Exception:  # noqa: BLE001 - the command ran; its exit code matters more than its record
        return False
    return True


# --- what is told at the end ---------------------------------------------------------------------


def _tell_waiting(passed: Passed, why: str, *, recorded: bool | None, json_output: bool) -> None:
    if json_output:
        print_json({**_result(passed), "recorded": recorded, "buffered": True})
    else:
        warn(why)


def _tell_failure(passed: Passed, exc: BaseException, *, json_output: bool) -> None:
    """Say that nothing was recorded, or that nobody knows; the command's own result stays."""
    error = exc if isinstance(exc, OncewardError) else Internal(f"{type(exc).__name__}: {exc}")
    is_known = not isinstance(exc, (OutcomeUnknown, KeyboardInterrupt))
    if json_output:
        recorded = False if is_known else None
        print_json({**_result(passed), "recorded": recorded, **error.to_dict()})
        return
    warn(f"the command {'was not' if is_known else 'may not have been'} recorded")
    print_error(error)


def _result(passed: Passed) -> dict[str, Any]:
    return {"exitCode": passed.exit_code, "durationMs": passed.duration_ms}


def _tell(passed: Passed, captured: Captured, *, json_output: bool) -> None:
    if json_output:
        told: dict[str, Any] = {
            **_result(passed),
            "recorded": True,
            "run": captured.run,
            "command": captured.command,
            "issues": [_issue(each) for each in captured.issues],
            "outcomes": [
                {"fix": each.fix, "issue": each.issue, "status": each.status}
                for each in captured.verdicts
            ],
        }
        print_json(told)
        return
    _print(passed, captured)


def _issue(each: CapturedIssue) -> dict[str, Any]:
    return {
        "name": each.name,
        "isWarning": each.issue.is_warning,
        "message": each.issue.message,
        "kind": each.issue.kind,
        "detector": each.issue.detector,
        "context": each.issue.context,
        "isNew": each.is_new,
        "known": each.known,
    }


def _print(passed: Passed, captured: Captured) -> None:
    from rich.text import Text

    from onceward.cli.memory_looks import console, visible
    from onceward.memory.capture.capturing import RECALLED_MAX

    out = console(is_error=True)
    warnings = sum(each.issue.is_warning for each in captured.issues)
    errors = len(captured.issues) - warnings
    counts = [_count(errors, "error"), _count(warnings, "warning")]
    parts = [f"exit code {passed.exit_code}", *(each for each in counts if each)]
    out.print(Text(f"memory: recorded, {', '.join(parts)}", style="bold"))
    for place, each in enumerate(captured.issues):
        kind, colour = ("warning", "yellow") if each.issue.is_warning else ("error", "red")
        where = f"  {visible(each.issue.context)}" if each.issue.context else ""
        message = visible(each.issue.message)
        out.print(Text.assemble((f"  {kind}: ", colour), message, (where, "dim")))
        for said in _known(each) if place < RECALLED_MAX else ():
            out.print(Text(f"    {visible(said, 1_000)}"))
    for verdict in captured.verdicts:
        is_good = verdict.status != "failed"
        said = "works, its issue is gone" if is_good else "did not help, its issue is back"
        title = (f"  fix {said}: ", "green" if is_good else "red")
        out.print(Text.assemble(title, visible(verdict.fix)))


def _known(each: CapturedIssue) -> list[str]:
    if each.known is None:
        return ["new, nothing is known about it"] if each.is_new else []
    lines = str(each.known["text"]).splitlines()
    # The first says that these are recorded data; people see that.
    return [*(["new, but like another:"] if each.is_new else []), *lines[1:]]


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}" if number else ""
