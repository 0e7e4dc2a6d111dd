"""Transcript: a run as people read it, one line for each record of its ledger that tells something.

Pure. What agents said is data: control characters are taken out, long texts are cut. Knows neither
files nor terminals.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Final

from onceward.journal import Record
from onceward.orchestrator.progress import Place, Progress, moment, tests_of

#: How much of one text is shown.
TEXT_CHARACTERS_MAX: Final = 200
#: How much of a key is shown where only people read it.
KEY_CHARACTERS: Final = len("ik:") + 12
#: What a builder's tests say when no check has passed after a change.
UNCHECKED: Final = frozenset({"unchecked", "unchanged"})
_TASK_COLUMN: Final = 8
#: Texts beyond this are cut before they are cleaned, which takes time for every character.
_CLEANED_CHARACTERS_MAX: Final = 8 * TEXT_CHARACTERS_MAX


def line_of(record: Record, progress: Progress | None = None) -> str | None:
    """Return the line of a record, or None for one that tells people nothing.

    `progress`, which has taken the record, adds what only earlier records say: stage and duration.
    """
    tell = _TELLERS.get(str(record.get("kind")))
    told = tell(record, progress or Progress()) if tell else None
    if told is None:
        return None
    task_id, text = told
    return f"{str(record.get('at', ''))[11:19]:8}  {shown(task_id):{_TASK_COLUMN}}  {text}".rstrip()


def shown(value: object, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """Return any text so that it can do nothing but be read: one line, no control characters."""
    text = str(value)[:_CLEANED_CHARACTERS_MAX]
    # Cc moves cursors and rings bells, Cf turns the direction of writing, Cs cannot be written.
    plain = "".join(" " if unicodedata.category(each)[0] in "CZ" else each for each in text)
    words = " ".join(plain.split())
    return words if len(words) <= characters_max else words[: characters_max - 1].rstrip() + "…"


def duration(seconds: float) -> str:
    """Return how long something took, as short as it can be said."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def between(start: str | None, end: str | None) -> str | None:
    """Return how long it is from one time of a ledger to another; None when one is missing."""
    if not start or not end:  # A ledger whose beginning is lost has empty ones.
        return None
    return duration(max(0.0, (moment(end) - moment(start)).total_seconds()))


def answer(event: Mapping[str, Any]) -> str:
    """Return what an event says, in words."""
    name, payload = event.get("event"), event.get("payload") or {}
    files = len(event.get("artifacts") or ())
    brought = f", {files} file{'s' if files != 1 else ''}" if files else ""
    match name, event.get("status"):
        case "builder.completed", _:
            text = f"is done{_tests(payload)}{brought}"
        case "review.completed", "approved":
            text = "approves"
        case ("review.completed", _) | ("spec.changes_requested", _):
            text = "asks for changes" + _said(payload, "comments", "summary", "message")
        case "spec.updated", _:
            text = "updated the spec"
            if payload.get("unchanged"):
                text = "says that it updated the spec, but no file changed"
        case "spec.no_changes_needed", _:
            text = "finds the spec in order"
        case "artifact.produced", _:
            paths = (each.get("path") for each in event.get("artifacts") or ())
            text = "wrote " + shown(", ".join(map(str, paths)) or payload.get("path", "a file"))
        case "error", _:
            code = shown(payload.get("code", "ERROR"))
            text = f"failed: {code}{_said(payload, 'message')}"
        case "builder.progress", _:
            text = "is at work" + _said(payload, "text", "message", "progress")
        case _:
            text = shown(name)
    return text


def trouble(path: str, problem: str) -> str:
    """Return what is wrong with a file; many a problem begins with its path."""
    return shown(problem if problem.startswith(path) else f"{path}: {problem}")


def _tests(payload: Mapping[str, Any]) -> str:
    status, tests = shown(tests_of(payload) or ""), payload.get("tests")
    if not status or not isinstance(tests, Mapping):
        return ""
    if status == "unchecked":
        files = tests.get("required_outputs")
        return ", unchecked" + (" but for required files" if files else "")
    if status == "unchanged":
        return ", but changed nothing"
    allowed = tests.get("allowed_failures")
    named = ", ".join(map(str, allowed)) if isinstance(allowed, list) else ""
    return f", tests {status}" + (f" as allowed: {shown(named)}" if named else "")


def _said(payload: Mapping[str, Any], *names: str) -> str:
    """Return the first of these that was said, behind a colon."""
    for name in names:
        value = payload.get(name)
        if isinstance(value, list):
            value = "; ".join(_remark(each) for each in value)
        if value:
            return f": {shown(value)}"
    return ""


def _remark(value: object) -> str:
    if isinstance(value, Mapping):
        text = value.get("message") or value.get("comment") or value.get("text") or dict(value)
        place = value.get("path") or value.get("file")
        return f"{place}: {text}" if place else str(text)
    return str(value)


# --- what each kind of record tells: the task, if it belongs to one, and a sentence --------------

_Told = tuple[str, str] | None


def _command(record: Record, progress: Progress) -> _Told:
    place = progress.places.get(record["step"]) or Progress.of([record]).places[record["step"]]
    key = shown(record["command"]["idempotency_key"])[:KEY_CHARACTERS]
    return place.task_id, f"{place} · {place.agent} is asked ({key})"


def _answered(record: Record, progress: Progress) -> _Told:
    told = _event_line(record["event"], progress.places.get(record["step"]))
    # Not since it was announced: that may have been in an earlier life.
    took = between(progress.sent_at.get(record["step"]), record.get("at"))
    return (told[0], f"{told[1]} ({took})") if took else told


def _event(record: Record, progress: Progress) -> _Told:
    event, place = record["event"], progress.places.get(record["step"])
    if event.get("event") in ("builder.progress", "artifact.produced"):
        return _event_line(event, place)
    return None  # What ends a command is told when it is accepted.


def _event_line(event: Record, place: Place | None) -> tuple[str, str]:
    agent = shown((event.get("from") or {}).get("agent_type", "agent"))
    stage = f"{place} · " if place else ""
    return str(event.get("task_id", "")), f"{stage}{agent} {answer(event)}"


def _failed(record: Record, progress: Progress) -> _Told:
    place = progress.places.get(record["step"])
    stage = f"{place} · " if place else f"step {record['step']} · "
    what = f"{shown(record['code'])}: {shown(record['message'])}"
    again = "" if record.get("retryable") else ", which a retry does not help"
    text = f"{stage}attempt {record.get('attempt', 1)} failed: {what}{again}"
    return place.task_id if place else "", text


def _redo(record: Record, progress: Progress) -> _Told:
    place = progress.places.get(record["step"])
    stage = f"{place} · " if place else f"step {record['step']} · "
    problem = trouble(record["path"], record["problem"])
    return place.task_id if place else "", f"{stage}is done again, because of {problem}"


def _approval_withdrawn(record: Record, progress: Progress) -> _Told:
    place = progress.places.get(record["step"])
    stage = f"{place} · " if place else f"step {record['step']} · "
    paths = ", ".join(map(str, record.get("paths") or ()))
    which = f": {shown(paths)}" if paths else ""
    text = f"{stage}its approval is withdrawn, {shown(record['reason'])}{which}"
    return str(record.get("task_id", "")), text


def _files_kept(record: Record, _: Progress) -> _Told:
    count = record["files"]
    files = f"{count} changed file{'s' if count != 1 else ''}"
    return "", f"{files} kept in {shown(record['path'])}"


def _task_completed(record: Record, progress: Progress) -> _Told:
    task_id = record["task_id"]
    took = between(progress.task_started_at.get(task_id), record.get("at"))
    return task_id, "done" + (f" ({took})" if took else "")


def _run_completed(record: Record, progress: Progress) -> _Told:
    took = between(progress.started_at, record.get("at"))
    count = len(progress.tasks)
    many = f": {count} task{'s' if count != 1 else ''}" if count else ""
    unchecked = sum(status in UNCHECKED for status in progress.tests.values())
    told = f", {unchecked} unchecked" if unchecked else ""
    return "", f"run done{many}{told}" + (f" ({took})" if took else "")


def _agent_exited(record: Record, progress: Progress) -> _Told:
    if record.get("code") == 0:
        return None
    pid = record.get("pid", 0)
    agent = shown(record.get("agent") or progress.agents.get(pid) or f"process {pid}")
    how = ""
    if record.get("signal"):
        how = f" by signal {record['signal']}"
    elif record.get("code") is not None:
        how = f" with code {record['code']}"
    reason = f": {shown(record['reason'])}" if record.get("reason") else ""
    return "", f"{agent} ended{how}{reason}"


def _agent_restarting(record: Record, _: Progress) -> _Told:
    delay, agent = float(record.get("delay_s", 0)), shown(record["agent"])
    reason = f": {shown(record['reason'])}" if record.get("reason") else ""
    return "", f"{agent} is started again in {delay:.1f} s, restart {record['restart']}{reason}"


def _agent_noise(record: Record, _: Progress) -> _Told:
    count = record.get("count", 1)
    times = f" ({count} times)" if count != 1 else ""
    return "", f"{shown(record['agent'])} sent what was ignored: {shown(record['problem'])}{times}"


def _agent_log(record: Record, _: Progress) -> _Told:
    if record.get("level") not in ("warn", "error"):
        return None
    return "", f"{shown(record['agent'])} {record['level']}: {shown(record['message'])}"


def _run_resumed(record: Record, progress: Progress) -> _Told:
    pending = record.get("pending")
    if record.get("retry"):
        how = " to try again where it failed"
    elif pending is None:
        how = ", nothing was under way"
    else:
        place = progress.places.get(pending)
        how = f" at step {pending}" + (f", {place.task_id} {place}" if place else "")
    damaged = record.get("damaged")
    lines = f"; {damaged} damaged lines of the ledger are passed over" if damaged else ""
    return "", f"run resumed{how}{lines}"


def _reason(word: str) -> Callable[[Record, Progress], _Told]:
    def tell(record: Record, _: Progress) -> _Told:
        reason = record.get("reason")
        return "", f"run {word}" + (f": {shown(reason)}" if reason else "")

    return tell


_TELLERS: Final[Mapping[str, Callable[[Record, Progress], _Told]]] = {
    "run.started": lambda record, _: (
        "",
        f"{record['run_id']} begins: {shown(', '.join(each['id'] for each in record['tasks']))}",
    ),
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
        f"goes on from {record['to']}, though the run had left {record['from']}",
    ),
    "agent.exited": _agent_exited,
    "agent.restarting": _agent_restarting,
    "agent.noise": _agent_noise,
    "agent.log": _agent_log,
}
