"""`onceward memory capture` and `fix`: record commands with their issues, and fixes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from onceward.cli.memory_loader import open_memory
from onceward.cli.output import JsonFlag, print_error, print_json, warn
from onceward.cli.store_option import StoreUrl
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
    from onceward.memory.capture.command_capture import Captured, CapturedIssue, CommandContext
    from onceward.memory.capture.run_command import CommandResult
    from onceward.memory.offline_buffer import Buffer

Mode = Annotated[
    str,
    typer.Option(
        help="Mode or role of the caller, such as `debugger@2`; it is recorded. Default: none."
    ),
]
Repo = Annotated[
    str | None,
    typer.Option(
        help="Repository, such as `owner/name`. "
        "Default: git's remote `origin`, else the path of the checkout."
    ),
]
Branch = Annotated[str | None, typer.Option(help="Branch. Default: from git.")]
_STORE_UNAVAILABLE: Final = (
    "the store is unavailable; the command is buffered on disk and recorded later"
)
_FIX_AFTER_BACKLOG: Final = (
    "older records are being written; the fix is buffered on disk after them"
)
_COMMAND_AFTER_BACKLOG: Final = (
    "older records are being written; the command is buffered on disk after them"
)


def capture(
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND", help="The command to run and its arguments, after `--`."),
    ],
    mode: Mode = "",
    repo: Repo = None,
    branch: Branch = None,
    store: StoreUrl = None,
    json_output: Annotated[
        bool,
        typer.Option(
            "--json", help="Print one JSON object on stdout; the command's output goes to stderr."
        ),
    ] = False,
) -> None:
    """Run a command, record its errors and warnings, and print what is known about them.

    The output is forwarded; what is known is printed at the end on stderr. The exit code is that of
    the command, even if recording fails; 127 if there is no such command. It also records whether
    earlier fixes worked. While the store is unavailable, the record waits on disk for the next
    memory command.

    Example: `onceward memory capture -- pytest -q`
    """
    from onceward.memory.capture.run_command import run_command

    if not command[0].strip():
        message = "command: is empty"
        raise InvalidArgument(
            message, fix="pass a command, such as: onceward memory capture -- pytest -q"
        )
    sys.stdout.flush()
    with _unbuffered_output(2 if json_output else 1) as out, _unbuffered_output(2) as err:
        result = run_command(command, out, err)
    try:
        captured = _record(result, store, mode, repo, branch)
    except (Exception, KeyboardInterrupt) as exc:  # noqa: BLE001 - the command's exit code is returned in any case
        if not _buffer_command(result, exc, store, mode, repo, branch):
            _print_failure(result, exc, json_output=json_output)
        else:
            recorded = False if isinstance(exc, StoreUnavailable) else None
            _print_buffered(result, _STORE_UNAVAILABLE, recorded=recorded, json_output=json_output)
    else:
        if captured is None:
            _print_buffered(result, _COMMAND_AFTER_BACKLOG, recorded=False, json_output=json_output)
        else:
            _print_result(result, captured, json_output=json_output)
    raise typer.Exit(result.exit_code)


def fix(
    issue: Annotated[
        str,
        typer.Argument(
            help="The error or warning, recorded before: its name, such as `err#…`, or its text."
        ),
    ],
    strategy: Annotated[str, typer.Option(help="Required. How it is fixed, in one sentence.")],
    change: Annotated[
        list[str] | None, typer.Option(help="One change that the fix makes. Repeatable.")
    ] = None,
    doc: Annotated[
        list[str] | None, typer.Option(help="URL of a document it is based on. Repeatable.")
    ] = None,
    proposed: Annotated[
        bool, typer.Option("--proposed", help="Record the fix as proposed. Default: applied.")
    ] = False,
    mode: Mode = "",
    repo: Repo = None,
    branch: Branch = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Record a fix of an issue; if it is applied, later captures of its command verify it.

    Verified: the same command in the same directory succeeds without the issue. Failed: the issue
    is back. Another failure decides nothing. The same strategy and changes are the same fix. Once
    it was verified or failed, it is a new attempt only if the issue recurred after that. Exit 1 if
    the issue was never recorded.

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
        recorded, is_buffered = _fix(memory, facts, mode, repo, branch)
    if is_buffered and not json_output:
        warn(_FIX_AFTER_BACKLOG)
    if json_output:
        print_json(recorded)
        return
    is_known = recorded["entity"] == recorded["observation"] == "known"
    state = "buffered" if is_buffered else "known already" if is_known else "recorded"
    guess = " (provisional: the name changes if the issue is a warning)"
    print(f"{state}: {recorded['name']}{guess if 'isNameProvisional' in recorded else ''}")
    for each in recorded["relations"]:
        if each["status"] == "refused":
            warn(f"{each['relationType']} {each['to']}: {each['reason']}")


def _unbuffered_output(descriptor: int) -> IO[bytes]:
    """Return an unbuffered duplicate of this descriptor; /dev/null if it is closed."""
    try:
        return os.fdopen(os.dup(descriptor), "wb", buffering=0)
    except OSError:
        return os.fdopen(os.open(os.devnull, os.O_WRONLY), "wb", buffering=0)


def _checkout(repo: str | None, branch: str | None) -> tuple[str, str]:
    from onceward.memory.capture.command_capture import checkout_of

    if repo is not None and branch is not None:
        return repo, branch
    found = checkout_of(Path.cwd())
    return (found.repo if repo is None else repo, found.branch if branch is None else branch)


def _record(
    result: CommandResult, store: str | None, mode: str, repo: str | None, branch: str | None
) -> Captured | None:
    """Record a command; None if it is buffered after older records."""
    from onceward.memory.buffered_records import buffer_capture
    from onceward.memory.capture.command_capture import SOURCE
    from onceward.memory.capture.command_capture import capture as record

    with open_memory(store, source=SOURCE) as memory:
        context = _context(mode, repo, branch)
        _, is_buffered = _buffer_if_pending(
            memory, lambda buffer: buffer_capture(buffer, memory, result, context)
        )
        # A replayed command is recorded again: idempotent, and returns what is known.
        return None if is_buffered else record(memory, result, context)


def _fix(
    memory: Memory, facts: dict[str, Any], mode: str, repo: str, branch: str
) -> tuple[dict[str, Any], bool]:
    """Record a fix; return the answer, and whether it is buffered after older records."""
    from onceward.memory.buffered_records import buffer_fix, validate_offline
    from onceward.memory.capture.fix_verification import apply_fix
    from onceward.system import SystemClock, timestamp

    dated = {**facts, "ts": timestamp(SystemClock().now())}
    where = (memory.origin.source, mode, repo, branch)
    # Validate before buffering, because errors of a replay are only logged.
    waiting = validate_offline(memory, "record_fix", dated, where)
    was_buffered, is_buffered = _buffer_if_pending(
        memory, lambda buffer: buffer_fix(buffer, memory, dated, where)
    )
    if is_buffered:
        return waiting, True
    recorded = apply_fix(memory, **dated)
    # A replay may have written it already, so its statuses at that time are unknown.
    fates = {name: waiting[name] for name in ("entity", "observation")} if was_buffered else {}
    return {**recorded, **fates}, False


def _buffer_if_pending(memory: Memory, keep: Callable[[Buffer], object]) -> tuple[bool, bool]:
    """Buffer a call after pending records; return whether it was, and whether it still is."""
    from onceward.cli.memory_loader import buffer_of, replay_buffered

    buffer = buffer_of(memory.graph.store)
    try:
        if not buffer.pending():
            return False, False
        keep(buffer)
        # The process that was replaying may have ended by now.
        replay_buffered(memory)
        return True, bool(buffer.pending())
    except (StoreError, StorageError):  # No buffer: writing out of order is better than losing it.
        return False, False


def _context(mode: str, repo: str | None, branch: str | None) -> CommandContext:
    from onceward.memory.capture.command_capture import CommandContext

    repo, branch = _checkout(repo, branch)
    return CommandContext(cwd=str(Path.cwd()), mode=mode, repo=repo, branch=branch)


def _buffer_command(
    result: CommandResult,
    exc: BaseException,
    store: str | None,
    mode: str,
    repo: str | None,
    branch: str | None,
) -> bool:
    """Buffer a command while the store is unavailable; return whether it was buffered."""
    if not isinstance(exc, StoreUnavailable | OutcomeUnknown):
        return False
    from onceward.cli.memory_loader import buffer_of
    from onceward.client import Onceward
    from onceward.memory import Memory
    from onceward.memory.buffered_records import buffer_capture
    from onceward.memory.capture.command_capture import current_root
    from onceward.stores import open_store

    try:
        memory = Memory(Onceward(open_store(store)), root=current_root())
        buffer_capture(buffer_of(memory.graph.store), memory, result, _context(mode, repo, branch))
    except Exception:  # noqa: BLE001 - the command ran; its exit code is returned in any case
        return False
    return True


# --- output --------------------------------------------------------------------------------------


def _print_buffered(
    result: CommandResult, why: str, *, recorded: bool | None, json_output: bool
) -> None:
    if json_output:
        print_json({**_result(result), "recorded": recorded, "buffered": True})
    else:
        warn(why)


def _print_failure(result: CommandResult, exc: BaseException, *, json_output: bool) -> None:
    """Report that nothing was recorded, or that the outcome is unknown; keep the exit code."""
    fix = (
        "the command has run; if it may run twice, capture it again to record it; if that fails, "
        "too, please report it"
    )
    found = f"{type(exc).__name__}: {exc}"
    error = exc if isinstance(exc, OncewardError) else Internal(found, fix=fix)
    is_known = not isinstance(exc, (OutcomeUnknown, KeyboardInterrupt))
    if json_output:
        recorded = False if is_known else None
        print_json({**_result(result), "recorded": recorded, **error.to_dict()})
        return
    warn(f"the command {'was not' if is_known else 'may not have been'} recorded")
    print_error(error)


def _result(result: CommandResult) -> dict[str, Any]:
    return {"exitCode": result.exit_code, "durationMs": result.duration_ms}


def _print_result(result: CommandResult, captured: Captured, *, json_output: bool) -> None:
    if json_output:
        summary: dict[str, Any] = {
            **_result(result),
            "recorded": True,
            "run": captured.run,
            "command": captured.command,
            "issues": [_issue(each) for each in captured.issues],
            "outcomes": [
                {"fix": each.fix, "issue": each.issue, "status": each.status}
                for each in captured.verdicts
            ],
        }
        print_json(summary)
        return
    _print_text(result, captured)


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


def _print_text(result: CommandResult, captured: Captured) -> None:
    from rich.text import Text

    from onceward.cli.memory_format import console, printable_line
    from onceward.memory.capture.command_capture import RECALLED_MAX

    out = console(is_error=True)
    warnings = sum(each.issue.is_warning for each in captured.issues)
    errors = len(captured.issues) - warnings
    counts = [_count(errors, "error"), _count(warnings, "warning")]
    parts = [f"exit code {result.exit_code}", *(each for each in counts if each)]
    out.print(Text(f"memory: recorded, {', '.join(parts)}", style="bold"))
    for index, each in enumerate(captured.issues):
        kind, colour = ("warning", "yellow") if each.issue.is_warning else ("error", "red")
        where = f"  {printable_line(each.issue.context)}" if each.issue.context else ""
        message = printable_line(each.issue.message)
        out.print(Text.assemble((f"  {kind}: ", colour), message, (where, "dim")))
        for line in _known_lines(each) if index < RECALLED_MAX else ():
            out.print(Text(f"    {printable_line(line, 1_000)}"))
    for verdict in captured.verdicts:
        is_good = verdict.status != "failed"
        outcome = "verified, its issue is gone" if is_good else "failed, its issue is back"
        title = (f"  fix {outcome}: ", "green" if is_good else "red")
        out.print(Text.assemble(title, printable_line(verdict.fix)))


def _known_lines(each: CapturedIssue) -> list[str]:
    if each.known is None:
        return ["new, no fix is known"] if each.is_new else []
    lines = str(each.known["text"]).splitlines()
    # The first line, a note for models, is left out.
    return [*(["new, similar to:"] if each.is_new else []), *lines[1:]]


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}" if number else ""
