"""`onceward journal`: append to, poll, follow and verify JSON journals."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from onceward.cli.output import (
    Fingerprint,
    JsonFlag,
    PageJson,
    group,
    json_argument,
    print_json,
    print_page,
    reject_fingerprint,
)
from onceward.errors import InvalidArgument

app = group("Append to, poll, follow and verify JSON journals (one record per line).")

_File = Annotated[Path, typer.Argument(help="The journal file.")]
_Since = Annotated[
    str, typer.Option(help="Print only what is after this cursor, from an earlier poll.")
]
_Match = Annotated[
    list[str] | None,
    typer.Option(
        help="Only records whose top-level FIELD is the string TEXT, as FIELD=TEXT. Repeatable; "
        "all must match."
    ),
]


@app.command()
def append(
    file: _File,
    records: Annotated[
        list[str],
        typer.Argument(help="Objects, or arrays of them: JSON, `@file`, or `-` for stdin."),
    ],
    json_output: JsonFlag = False,
) -> None:
    """Append records in one write; they are on disk when this returns.

    Not idempotent: the same records are appended again. A missing file is created, with its
    directories. Exit 2 if a record is no object: then nothing is written.

    Example: `onceward journal append notes.jsonl '{"id": "1", "text": "hello"}'`
    """
    from onceward.journal import Journal

    given: list[object] = []
    for text in records:
        value = json_argument("records", text)
        given.extend(value if isinstance(value, list) else [value])
    if not given:
        message = "records: the array is empty; nothing was appended"
        raise InvalidArgument(message, fix="append at least one object", field="records")
    appended = Journal(file).append(*given)  # type: ignore[arg-type]  # checked inside, by name
    if json_output:
        print_json({"start": appended.start, "end": appended.end, "records": len(given)})
    else:
        print(f"appended {len(given)} at {appended.start}, next cursor {appended.end}")


@app.command()
def poll(
    file: _File,
    since: _Since = "0",
    limit: Annotated[
        int | None, typer.Option(help="Maximum number of records. Default and maximum: 500.")
    ] = None,
    match: _Match = None,
    fingerprint: Fingerprint = None,
    json_output: PageJson = False,
) -> None:
    """Print the records after a cursor, one per line; the next cursor goes to stderr.

    If no record is printed although the cursor has moved, only a part of the file was searched:
    poll again at once. A missing file counts as empty.

    Example: `onceward journal poll notes.jsonl --since 0 --limit 10`
    """
    from onceward.journal import Journal

    page = Journal(file).read(since, limit, _fields(match), fingerprint)
    print_page(page, json_output=json_output)
    if not json_output:
        print(f"next cursor: {page.next_cursor}", file=sys.stderr)


@app.command()
def tail(
    file: _File,
    since: Annotated[
        str,
        typer.Option(
            help="Begin after this cursor, from an earlier poll; `end`: only new records."
        ),
    ] = "0",
    match: _Match = None,
    fingerprint: Fingerprint = None,
    wait: Annotated[
        float | None,
        typer.Option(
            help="Stop after this many seconds without a matching record; exit 0. "
            "Default: until Ctrl-C."
        ),
    ] = None,
    json_output: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print each page as a line of JSON with `items`, `nextCursor` and `fingerprint`.",
        ),
    ] = False,
) -> None:
    """Print the records after a cursor, then new ones as any process appends them.

    The command also waits for a file that does not exist yet.

    Example: `onceward journal tail notes.jsonl --since end`
    """
    from onceward.journal import Journal

    journal, fields = Journal(file), _fields(match)
    if since == "end":
        reject_fingerprint(fingerprint)
        since, fingerprint = journal.end()
    patience = 3600.0 if wait is None else wait
    while True:
        page = journal.tail(since, None, fields, fingerprint, wait=patience)
        if page.items:
            print_page(page, json_output=json_output)
        elif wait is not None:
            return
        since, fingerprint = page.next_cursor, page.tag


@app.command()
def verify(file: _File, json_output: JsonFlag = False) -> None:
    """Check every line; list damaged ones and exit 1 if there are any.

    An incomplete last line counts as damaged. The next append ends it with a newline; it stays
    damaged unless only the newline was missing. Readers skip damaged lines. Changes nothing; exit 2
    if the file does not exist.

    Example: `onceward journal verify notes.jsonl`
    """
    from onceward.journal import Journal

    found = Journal(file).verify()
    if json_output:
        print_json({"ok": found.ok, **asdict(found)})
    else:
        print(
            f"{found.record_count} records in {found.size} bytes, {found.blank_count} blank lines"
        )
        for line in found.damage:
            print(f"damaged: {line.length} bytes at {line.offset}: {line.reason}")
        if found.damaged_count > len(found.damage):
            print(f"… and {found.damaged_count - len(found.damage)} more")
        if found.torn_bytes:
            print(
                f"torn: {found.torn_bytes} bytes without a newline; the next append ends this line"
            )
        print("ok" if found.ok else "readers skip these lines")
    if not found.ok:
        raise typer.Exit(1)


def _fields(match: list[str] | None) -> dict[str, str]:
    fields = {}
    for text in match or []:
        field, equals, wanted = text.partition("=")
        if not equals or not field:
            message = f"match: {text!r} must have the form FIELD=TEXT"
            raise InvalidArgument(message, fix="pass --match sessionId=lab_1", field="match")
        fields[field] = wanted
    return fields
