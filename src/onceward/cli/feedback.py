"""`onceward feedback`: add, list, export, poll and wait for judgements, also without a server."""

from __future__ import annotations

import sys
from collections import deque
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.cli.output import (
    Fingerprint,
    JsonFlag,
    PageJson,
    group,
    print_json,
    print_page,
    reject_fingerprint,
)
from onceward.cli.text_tables import print_table
from onceward.errors import FileMissing, InvalidArgument, Retryable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onceward.journal import Journal, Record, RecordPage

#: The session of entries that are added without one: all of them share it.
TERMINAL: Final = "terminal"
#: How much of the end of the file is looked through first; then twice as much, and so on.
_LIST_BYTES: Final = 1024 * 1024
_NOTES_SHOWN: Final = 60
_NOTHING: Final = "the judgement is empty; nothing was added"

app = group("Add, list, export, poll and wait for judgements, with or without a server.")

_SessionFilter = Annotated[
    str | None, typer.Option("--session", help="Only entries of this session.")
]
_RunFilter = Annotated[str | None, typer.Option("--run", help="Only entries about this run.")]
_ExperimentFilter = Annotated[
    str | None, typer.Option("--experiment", help="Only entries of this experiment.")
]
_Since = Annotated[
    str, typer.Option(help="Print only what is after this cursor, from an earlier poll.")
]


def _rating(name: str) -> object:
    """Return an option of the original Lab's command."""
    return typer.Option(help=f"Rating from 0 to 100; the same as `--rating {name}=N`.")


_Path = Annotated[
    Path | None,
    typer.Argument(help="The run, by its directory or video; it is imported. Not with --run."),
]
_Variant = Annotated[
    str | None,
    typer.Option(help="The side of the experiment: `baseline`, or the id of a variant."),
]
_AnyRating = Annotated[
    list[str] | None,
    typer.Option(help="A rating from 0 to 100 of an aspect below, as `overall=80`. Repeatable."),
]
_Answer = Annotated[
    list[str] | None,
    typer.Option(help="An answer to a question of the experiment, as `q1=yes`. Repeatable."),
]
_RequestId = Annotated[
    str | None,
    typer.Option(
        help="Idempotency key: the same judgement again adds nothing and prints the same id; "
        "another one with this id is refused, exit 1. Default: none; every call adds an entry."
    ),
]


@app.command()
def add(
    path: _Path = None,
    run: Annotated[str | None, typer.Option(help="The run, by its id. Not with PATH.")] = None,
    experiment: Annotated[str | None, typer.Option(help="The experiment, by its id.")] = None,
    variant: _Variant = None,
    topic: Annotated[
        str | None, typer.Option(help="What the judgement is about, in a line.")
    ] = None,
    rating: _AnyRating = None,
    overall: Annotated[str | None, _rating("overall")] = None,
    hook: Annotated[str | None, _rating("hook")] = None,
    pacing: Annotated[str | None, _rating("pacing")] = None,
    script: Annotated[str | None, _rating("script")] = None,
    visuals: Annotated[str | None, _rating("visuals")] = None,
    motion: Annotated[str | None, _rating("motion")] = None,
    captions: Annotated[str | None, _rating("captions")] = None,
    sync: Annotated[str | None, _rating("sync")] = None,
    notes: Annotated[str | None, typer.Option(help="Free text.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag. Repeatable.")] = None,
    answer: _Answer = None,
    session: Annotated[
        str, typer.Option(help="The session that the entry belongs to; created if missing.")
    ] = TERMINAL,
    request_id: _RequestId = None,
    json_output: JsonFlag = False,
) -> None:
    """Add one judgement, of a run, of an experiment or in general, and print its id.

    Needs a rating, notes, a tag or an answer. Without PATH, --run and --experiment it is about
    nothing in particular. Exit 1 if a run or an experiment is named by an id that does not exist.

    Example: `onceward feedback add out/a --overall 80 --notes "a better hook"`
    """
    from onceward.cli.lab_server import open_lab
    from onceward.lab.request_models import NewFeedback, Ratings, build_request

    _check_named_once("run", path, run)
    given = (overall, hook, pacing, script, visuals, motion, captions, sync)
    aspects = zip(Ratings.model_fields, given, strict=True)
    named = [f"{name}={value}" for name, value in aspects if value is not None]
    ratings = _pairs("rating", [*(rating or ()), *named])
    body = {
        "runId": run,
        "experimentId": experiment,
        "variantId": variant,
        "topic": topic,
        "ratings": dict(ratings) or None,
        "notes": notes,
        "tags": tag,
        "answers": dict(_pairs("answer", answer)) or None,
    }
    if not any((ratings, (notes or "").strip(), tag, answer)):
        raise InvalidArgument(_NOTHING, fix="pass --overall, --rating, --notes, --tag or --answer")
    new = build_request(lambda: NewFeedback.model_validate(body))
    # A user of the terminal can read the files anyway, so every run is allowed.
    lab = open_lab([Path("/")], session)
    if path is not None:
        new = new.model_copy(update={"runId": lab.import_run(str(path.absolute())).run_id})
    found = lab.add_feedback(new, request_id)
    if json_output:
        print_json({**found.body, "replayed": found.replayed})
    else:
        print(found.body["feedbackId"])


@app.command("list")
def list_entries(
    limit: Annotated[int, typer.Option(help="Maximum number of entries.", min=1)] = 20,
    session: _SessionFilter = None,
    run: _RunFilter = None,
    experiment: _ExperimentFilter = None,
    tag: Annotated[str | None, typer.Option(help="Only entries with this tag.")] = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print each entry as a line of JSON.")
    ] = False,
) -> None:
    """List the entries of the feedback file, newest first.

    An entry is one judgement, with its ratings, notes, tags and answers: of a run, of an experiment
    or in general. The file is `$CM_FEEDBACK_STORE_PATH`, or by default
    `~/.cm/feedback/feedback.jsonl`. If no entry matches, it prints `no entries`; exit 0.

    Example: `onceward feedback list --limit 5 --session lab_1`
    """
    found = _newest(limit, _match(session, run, experiment), tag)
    if json_output:
        for entry in found:
            print_json(entry)
    elif not found:
        print("no entries")
    else:
        _print_table(found)


@app.command()
def export(
    path: Annotated[
        Path | None,
        typer.Argument(
            help="Output file, named `….json`. Not with --output. "
            "Default: a new one in `exports` of `$CM_LAB_ROOT` (`~/.cm/lab`)."
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The same as PATH.")] = None,
    session: Annotated[
        str | None, typer.Option(help="Only this session, and what it refers to. Default: all.")
    ] = None,
    json_output: JsonFlag = False,
) -> None:
    """Export runs, experiments and feedback as one JSON file; print its number of feedback entries.

    An earlier export is replaced at once; any other existing file is refused, exit 1. If the
    session does not exist, the file holds no entries; exit 0.

    Example: `onceward feedback export results.json`
    """
    from onceward.lab.lab_export import write_export
    from onceward.lab.lab_paths import LabPaths

    _check_named_once("output", path, output)
    path = output if path is None else path
    # A user of the terminal may write wherever the file system permits.
    directory = None if path is None else path.parent.resolve()
    named = None if path is None or directory is None else str(directory / path.name)
    roots = [] if directory is None else [directory]
    exported = write_export(LabPaths.from_environment(), roots, session_id=session, path=named)
    if json_output:
        print_json({"path": exported.path, "count": exported.count})
    else:
        print(f"{exported.count} feedback entries in {exported.path}")


@app.command()
def poll(
    since: _Since = "0",
    limit: Annotated[
        int | None, typer.Option(help="Maximum number of entries. Default and maximum: 500.")
    ] = None,
    session: _SessionFilter = None,
    fingerprint: Fingerprint = None,
    json_output: PageJson = False,
) -> None:
    """Print the feedback entries after a cursor, one per line; the next cursor goes to stderr.

    If no entry is printed although the cursor has moved, only a part of the file was searched: poll
    again at once. Without new entries, or without a file, only the cursor is printed; exit 0.

    Example: `onceward feedback poll --since 0 --limit 10 --json`
    """
    _print_page(
        _journal().read(since, limit, _match(session), fingerprint), json_output=json_output
    )


@app.command()
def wait(
    since: Annotated[
        str,
        typer.Option(
            help="Only entries after this cursor, from an earlier poll; `end`: only new entries."
        ),
    ] = "0",
    session: _SessionFilter = None,
    run: _RunFilter = None,
    experiment: _ExperimentFilter = None,
    fingerprint: Fingerprint = None,
    timeout: Annotated[
        float | None,
        typer.Option(help="Give up after this many seconds; exit 1. Default: never.", min=0),
    ] = None,
    json_output: PageJson = False,
) -> None:
    """Wait for the first entry of the feedback file that matches, and print it.

    An entry that is in the file already counts, unless it comes before --since. The next cursor
    goes to stderr; with --json it is `nextCursor`. After a timeout the error has it. Exit 2 if the
    fingerprint does not match.

    Example: `onceward feedback wait --run run_1 --since end --timeout 600`
    """
    journal = _journal()
    if since == "end":
        reject_fingerprint(fingerprint)
        since, fingerprint = journal.end()
    match = _match(session, run, experiment)
    while True:
        page = journal.tail(
            since, 1, match, fingerprint, wait=3600.0 if timeout is None else timeout
        )
        if page.items:
            _print_page(page, json_output=json_output)
            return
        since, fingerprint = page.next_cursor, page.tag
        if timeout is not None:
            message = f"no entry matched within {timeout:g} seconds"
            tag = f" --fingerprint {fingerprint}" if fingerprint else ""
            fix = f"continue with --since {since}{tag}"
            raise Retryable(message, fix=fix, nextCursor=since, fingerprint=fingerprint)


def _check_named_once(option: str, path: Path | None, other: object) -> None:
    if path is not None and other is not None:
        message = f"--{option}: PATH and this option exclude each other"
        raise InvalidArgument(message, fix="pass one of them", field=option)


def _pairs(option: str, given: list[str] | None) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            message = f"--{option} {text!r} must have the form NAME=VALUE"
            example = "overall=80" if option == "rating" else "q1=yes"
            raise InvalidArgument(message, fix=f"pass --{option} {example}", field=option)
        if any(name == each for each, _ in pairs):
            message = f"--{option}: {name!r} is passed twice"
            raise InvalidArgument(message, fix="pass each name once", field=option)
        pairs.append((name, value))
    return pairs


def _match(
    session: str | None = None, run: str | None = None, experiment: str | None = None
) -> dict[str, str]:
    named = {"sessionId": session, "runId": run, "experimentId": experiment}
    return {name: text for name, text in named.items() if text is not None}


def _journal() -> Journal:
    from onceward.journal import Journal
    from onceward.lab.lab_paths import LabPaths
    from onceward.lab.models import is_feedback

    return Journal(LabPaths.from_environment().feedback, valid=is_feedback)


def _newest(limit: int, match: dict[str, str], tag: str | None) -> list[Record]:
    """Return the last entries that match, newest first, reading the file backwards."""
    from onceward.journal.line_scanner import last_line_end
    from onceward.system import SystemFiles

    journal = _journal()
    try:
        opened = SystemFiles().open_read(journal.path)
    except FileMissing:
        return []
    with closing(opened) as file:
        size, window = file.stat().size, _LIST_BYTES
        while True:
            start = last_line_end(file, max(0, size - window))
            found = deque(_matching(journal, start, match, tag), maxlen=limit)
            if len(found) == limit or start == 0:
                return list(reversed(found))
            window *= 2


def _matching(
    journal: Journal, start: int, match: dict[str, str], tag: str | None
) -> Iterable[Record]:
    since, place = str(start), None
    while True:
        page = journal.read(since, match=match, tag=place)
        for entry in page.items:
            tags = entry.get("tags")
            if tag is None or (isinstance(tags, list) and tag in tags):
                yield entry
        if page.next_cursor == since:
            return
        since, place = page.next_cursor, page.tag


def _print_page(page: RecordPage, *, json_output: bool) -> None:
    print_page(page, json_output=json_output)
    if not json_output:
        print(f"next cursor: {page.next_cursor}", file=sys.stderr)


def _print_table(entries: Iterable[Record]) -> None:
    print_table(
        ("id", "when", "about", "overall", "notes", "tags"), map(_row, entries), keep="\n\t"
    )


def _row(entry: Record) -> tuple[object, ...]:
    ratings, tags, notes = entry.get("ratings"), entry.get("tags"), entry.get("notes")
    about = entry.get("runId") or entry.get("topic") or ""
    overall = ratings.get("overall", "") if isinstance(ratings, dict) else ""
    shown = notes if isinstance(notes, str) else ""
    cut = shown if len(shown) <= _NOTES_SHOWN else f"{shown[:_NOTES_SHOWN]}…"
    tagged = " ".join(map(str, tags)) if isinstance(tags, list) else ""
    return entry["id"], entry["createdAt"], about, overall, cut, tagged
