"""Transcript: a human-readable log of a run, one line for each relevant ledger record.

Pure. Texts of agents are untrusted: control characters are removed and long texts truncated.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Final

from onceward.journal import Record
from onceward.orchestrator.progress import CommandLabel, Progress, parse_time, tests_of

#: Maximum length of a text in a line.
TEXT_CHARACTERS_MAX: Final = 200
#: Length of a shortened key.
KEY_CHARACTERS: Final = len("ik:") + 12
#: Test results of a build that passed no check after a change.
UNCHECKED: Final = frozenset({"unchecked", "unchanged"})
_TASK_COLUMN: Final = 8
#: Longer texts are truncated before cleaning, which is linear in their length.
_CLEANED_CHARACTERS_MAX: Final = 8 * TEXT_CHARACTERS_MAX


def transcript_line(record: Record, progress: Progress | None = None) -> str | None:
    """Return the line of a record, or None for a record that is not shown.

    `progress`, with this record applied, adds data of earlier records: stage and duration.
    """
    format_record = _FORMATTERS.get(str(record.get("kind")))
    line = format_record(record, progress or Progress()) if format_record else None
    if line is None:
        return None
    task_id, text = line
    time = str(record.get("at", ""))[11:19]
    return f"{time:8}  {printable(task_id):{_TASK_COLUMN}}  {text}".rstrip()


def printable(value: object, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """Return a text that is safe to print: one line, no control characters, limited length."""
    text = str(value)[:_CLEANED_CHARACTERS_MAX]
    # Cc controls terminals, Cf changes the text direction, Cs cannot be encoded.
    plain = "".join(" " if unicodedata.category(each)[0] in "CZ" else each for each in text)
    words = " ".join(plain.split())
    return words if len(words) <= characters_max else words[: characters_max - 1].rstrip() + "…"


def duration(seconds: float) -> str:
    """Return a duration in words, such as `3 min 20 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def elapsed(start: str | None, end: str | None) -> str | None:
    """Return the duration between two times of a ledger; None if one is missing."""
    if not start or not end:  # Empty if the start of the ledger is lost.
        return None
    return duration(max(0.0, (parse_time(end) - parse_time(start)).total_seconds()))


def describe_answer(event: Mapping[str, Any]) -> str:
    """Return an event in words."""
    name, payload = event.get("event"), event.get("payload") or {}
    files = len(event.get("artifacts") or ())
    suffix = f", {files} file{'s' if files != 1 else ''}" if files else ""
    match name, event.get("status"):
        case "builder.completed", _:
            text = f"is done{_tests(payload)}{suffix}"
        case "review.completed", "approved":
            text = "approves"
        case ("review.completed", _) | ("spec.changes_requested", _):
            text = "asks for changes" + _first_text(payload, "comments", "summary", "message")
        case "spec.updated", _:
            text = "updated the spec"
            if payload.get("unchanged"):
                text = "reports an updated spec, but no file changed"
        case "spec.no_changes_needed", _:
            text = "needs no change of the spec"
        case "artifact.produced", _:
            paths = (each.get("path") for each in event.get("artifacts") or ())
            text = "wrote " + printable(", ".join(map(str, paths)) or payload.get("path", "a file"))
        case "error", _:
            code = printable(payload.get("code", "ERROR"))
            text = f"failed: {code}{_first_text(payload, 'message')}"
        case "builder.progress", _:
            text = "is working" + _first_text(payload, "text", "message", "progress")
        case _:
            text = printable(name)
    return text


def describe_problem(path: str, problem: str) -> str:
    """Return a file's problem, with the path unless the problem starts with it."""
    return printable(problem if problem.startswith(path) else f"{path}: {problem}")


def _tests(payload: Mapping[str, Any]) -> str:
    status, tests = printable(tests_of(payload) or ""), payload.get("tests")
    if not status or not isinstance(tests, Mapping):
        return ""
    if status == "unchecked":
        files = tests.get("required_outputs")
        return ", unchecked" + (" except for required files" if files else "")
    if status == "unchanged":
        return ", but changed nothing"
    allowed = tests.get("allowed_failures")
    named = ", ".join(map(str, allowed)) if isinstance(allowed, list) else ""
    return f", tests {status}" + (f" as allowed: {printable(named)}" if named else "")


def _first_text(payload: Mapping[str, Any], *names: str) -> str:
    """Return the first nonempty field of these after a colon, or nothing."""
    for name in names:
        value = payload.get(name)
        if isinstance(value, list):
            value = "; ".join(_remark(each) for each in value)
        if value:
            return f": {printable(value)}"
    return ""


def _remark(value: object) -> str:
    if isinstance(value, Mapping):
        text = value.get("message") or value.get("comment") or value.get("text") or dict(value)
        place = value.get("path") or value.get("file")
        return f"{place}: {text}" if place else str(text)
    return str(value)


# --- the line of each kind of record: its task, if any, and a sentence ---------------------------

_TaskLine = tuple[str, str] | None


def _command(record: Record, progress: Progress) -> _TaskLine:
    place = progress.labels.get(record["step"]) or Progress.of([record]).labels[record["step"]]
    key = printable(record["command"]["idempotency_key"])[:KEY_CHARACTERS]
    return place.task_id, f"{place} · {place.agent} is asked ({key})"


def _answered(record: Record, progress: Progress) -> _TaskLine:
    line = _event_line(record["event"], progress.labels.get(record["step"]))
    # Since it was sent, not since it was recorded, which may have been in an earlier process.
    took = elapsed(progress.sent_at.get(record["step"]), record.get("at"))
    return (line[0], f"{line[1]} ({took})") if took else line


def _event(record: Record, progress: Progress) -> _TaskLine:
    event, place = record["event"], progress.labels.get(record["step"])
    if event.get("event") in ("builder.progress", "artifact.produced"):
        return _event_line(event, place)
    return None  # The event that ends a command is shown when its answer is recorded.


def _event_line(event: Record, place: CommandLabel | None) -> tuple[str, str]:
    agent = printable((event.get("from") or {}).get("agent_type", "agent"))
    stage = f"{place} · " if place else ""
    return str(event.get("task_id", "")), f"{stage}{agent} {describe_answer(event)}"


def _failed(record: Record, progress: Progress) -> _TaskLine:
    place = progress.labels.get(record["step"])
    stage = f"{place} · " if place else f"step {record['step']} · "
    what = f"{printable(record['code'])}: {printable(record['message'])}"
    final = "" if record.get("retryable") else " (not retryable)"
    text = f"{stage}attempt {record.get('attempt', 1)} failed: {what}{final}"
    return place.task_id if place else "", text


def _redo(record: Record, progress: Progress) -> _TaskLine:
    place = progress.labels.get(record["step"])
    stage = f"{place} · " if place else f"step {record['step']} · "
    problem = describe_problem(record["path"], record["problem"])
    return place.task_id if place else "", f"{stage}is redone, because of {problem}"


def _approval_withdrawn(record: Record, progress: Progress) -> _TaskLine:
    place = progress.labels.get(record["step"])
    stage = f"{place} · " if place else f"step {record['step']} · "
    paths = ", ".join(map(str, record.get("paths") or ()))
    which = f": {printable(paths)}" if paths else ""
    text = f"{stage}approval withdrawn, {printable(record['reason'])}{which}"
    return str(record.get("task_id", "")), text


def _files_kept(record: Record, _: Progress) -> _TaskLine:
    if record.get("precaution"):
        return None  # Every wrapped build has one; nothing is known to have changed.
    count = record["files"]
    files = f"{count} changed file{'s' if count != 1 else ''}"
    return "", f"{files} backed up to {printable(record['path'])}"


def _task_completed(record: Record, progress: Progress) -> _TaskLine:
    task_id = record["task_id"]
    took = elapsed(progress.task_started_at.get(task_id), record.get("at"))
    return task_id, "done" + (f" ({took})" if took else "")


def _run_started(record: Record, _: Progress) -> _TaskLine:
    tasks = printable(", ".join(each["id"] for each in record["tasks"]))
    return "", f"{record['run_id']} begins: {tasks}"


def _run_completed(record: Record, progress: Progress) -> _TaskLine:
    took = elapsed(progress.started_at, record.get("at"))
    count = len(progress.tasks)
    many = f": {count} task{'s' if count != 1 else ''}" if count else ""
    unchecked = sum(status in UNCHECKED for status in progress.tests.values())
    line = f", {unchecked} unchecked" if unchecked else ""
    return "", f"run done{many}{line}" + (f" ({took})" if took else "")


def _agent_exited(record: Record, progress: Progress) -> _TaskLine:
    if record.get("code") == 0:
        return None
    pid = record.get("pid", 0)
    agent = printable(record.get("agent") or progress.agents.get(pid) or f"process {pid}")
    how = ""
    if record.get("signal"):
        how = f" by signal {record['signal']}"
    elif record.get("code") is not None:
        how = f" with code {record['code']}"
    reason = f": {printable(record['reason'])}" if record.get("reason") else ""
    return "", f"{agent} ended{how}{reason}"


def _agent_restarting(record: Record, _: Progress) -> _TaskLine:
    delay, agent = float(record.get("delay_s", 0)), printable(record["agent"])
    reason = f": {printable(record['reason'])}" if record.get("reason") else ""
    return "", f"{agent} is restarted in {delay:.1f} s, restart {record['restart']}{reason}"


def _agent_noise(record: Record, _: Progress) -> _TaskLine:
    count = record.get("count", 1)
    times = f" ({count} times)" if count != 1 else ""
    agent, problem = printable(record["agent"]), printable(record["problem"])
    return "", f"{agent} sent ignored output: {problem}{times}"


def _agent_log(record: Record, _: Progress) -> _TaskLine:
    if record.get("level") not in ("warn", "error"):
        return None
    return "", f"{printable(record['agent'])} {record['level']}: {printable(record['message'])}"


def _run_resumed(record: Record, progress: Progress) -> _TaskLine:
    pending = record.get("pending")
    if record.get("retry"):
        how = " to retry the failed step"
    elif pending is None:
        how = ", no command was pending"
    else:
        place = progress.labels.get(pending)
        how = f" at step {pending}" + (f", {place.task_id} {place}" if place else "")
    damaged = record.get("damaged")
    lines = f"; {damaged} damaged lines of the ledger are ignored" if damaged else ""
    return "", f"run resumed{how}{lines}"


def _reason(word: str) -> Callable[[Record, Progress], _TaskLine]:
    def format_record(record: Record, _: Progress) -> _TaskLine:
        reason = record.get("reason")
        return "", f"run {word}" + (f": {printable(reason)}" if reason else "")

    return format_record


_FORMATTERS: Final[Mapping[str, Callable[[Record, Progress], _TaskLine]]] = {
    "run.started": _run_started,
    "run.resumed": _run_resumed,
    "run.completed": _run_completed,
    "run.failed": _reason("failed"),
    "run.stopped": _reason("stopped"),
    "task.started": lambda record, _: (record["task_id"], f"begins at {record['snapshot_id']}"),
    "task.completed": _task_completed,
    "command": _command,
    "command.answered": _answered,
    "command.failed": _failed,
    "event": _event,
    "redo": _redo,
    "approval.withdrawn": _approval_withdrawn,
    "files.kept": _files_kept,
    "drift.accepted": lambda record, _: (
        "",
        f"changed files accepted: continues from {record['to']} instead of {record['from']}",
    ),
    "agent.exited": _agent_exited,
    "agent.restarting": _agent_restarting,
    "agent.noise": _agent_noise,
    "agent.log": _agent_log,
}
