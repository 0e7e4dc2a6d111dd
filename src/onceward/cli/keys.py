"""`onceward keys`: make, compare and check idempotency keys."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from onceward.cli.keys_stable import stable
from onceward.cli.output import (
    JsonFlag,
    array_argument,
    group,
    json_argument,
    object_argument,
    print_json,
    warn,
)

app = group("Make, compare and check idempotency keys.")
app.command()(stable)

_JSON_HELP = "JSON, `@file`, or `-` for standard input."


@app.command()
def canonical(
    value: Annotated[str, typer.Argument(help=f"Any value: {_JSON_HELP}")],
    json_output: Annotated[
        bool,
        typer.Option("--json", help="Print `{canonical, sha256}`: the text, and its hash."),
    ] = False,
) -> None:
    """Print a value as canonical JSON (RFC 8785).

    Example: `onceward keys canonical '{"b": 1, "a": [true, null]}'`
    """
    import hashlib

    from onceward.keys import canonical_json

    written = canonical_json(json_argument("value", value))
    if json_output:
        digest = hashlib.sha256(written).hexdigest()
        print_json({"canonical": written.decode(), "sha256": digest})
    else:
        print(written.decode())


@app.command()
def ik(
    action: Annotated[str, typer.Option(help="Required. The action, such as implement.")],
    task: Annotated[str, typer.Option(help="Required. The task's id, such as T-0042.")],
    snapshot: Annotated[
        str,
        typer.Option(
            help="Required. Snapshot id, from `onceward keys snapshot`, such as snap-abc123."
        ),
    ],
    inputs: Annotated[str, typer.Option(help=f"Required. An object: {_JSON_HELP}")],
    outputs: Annotated[str, typer.Option(help=f"Expected outputs, an array: {_JSON_HELP}")] = "[]",
    json_output: Annotated[
        bool, typer.Option("--json", help="Print `{key, warnings}` as JSON.")
    ] = False,
) -> None:
    """Print the idempotency key of a command: of its action, task, snapshot, inputs and outputs.

    Warns on stderr, with --json in `warnings`, about inputs that look as if they change between
    attempts; exit 0 even then.

    Example: `onceward keys ik --action implement --task T-0042 --snapshot snap-abc123
    --inputs '{"goal":"implement feature X"}'`
    """
    from onceward.keys import idempotency_key, lint

    given = object_argument("inputs", inputs)
    key = idempotency_key(
        action=action,
        task_id=task,
        snapshot_id=snapshot,
        inputs=given,
        expected_outputs=array_argument("outputs", outputs),
    )
    findings = lint(given)
    if json_output:
        print_json({"key": key, "warnings": [asdict(finding) for finding in findings]})
        return
    print(key)
    for finding in findings:
        warn(f"{finding.path} {finding.reason}: a retry may get another key")


@app.command()
def explain(
    left: Annotated[str, typer.Argument(help=f"A command, an object: {_JSON_HELP}")],
    right: Annotated[str, typer.Argument(help="The other command, in the same forms.")],
    json_output: JsonFlag = False,
) -> None:
    """Explain why the keys of two commands differ: print both keys and each difference.

    A command is an object with action, task_id, snapshot_id and inputs, and optionally
    expected_outputs. Exit 0 whether they differ or not.

    Example: `onceward keys explain @first.json @second.json`
    """
    from onceward.keys import explain as compare

    found = compare(object_argument("left", left), object_argument("right", right))
    if json_output:
        print_json({"same": found.same, **asdict(found)})
        return
    print(f"left   {found.left_key}\nright  {found.right_key}")
    print("same work" if found.same else "different work:")
    for difference in found.differences:
        sides = (difference.left or "(absent)", difference.right or "(absent)")
        print(f"  {difference.path}: {sides[0]} → {sides[1]}")
    if found.truncated:
        print("  … and more")


@app.command()
def lint(
    inputs: Annotated[str, typer.Argument(help=f"Inputs of a command: {_JSON_HELP}")],
    json_output: JsonFlag = False,
) -> None:
    """Find inputs that look as if they change between attempts; exit 1 if there are any.

    With them, a retry gets another key. Such are times, UUIDs, temporary paths, and names such as
    `started_at` or `request_id`.

    Example: `onceward keys lint '{"goal": "x", "started_at": "2026-02-06T12:00:00Z"}'`
    """
    from onceward.keys import lint as findings_in

    findings = findings_in(json_argument("inputs", inputs))
    if json_output:
        print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            print(f"{finding.path}: {finding.reason}")
        if not findings:
            print("no ephemeral inputs")
    if findings:
        raise typer.Exit(1)


@app.command()
def snapshot(
    directory: Annotated[Path, typer.Argument(help="The workspace's directory.")] = Path(),
    files: Annotated[
        bool, typer.Option("--files", help="Also list the files, with hash and size.")
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print `{id, files}` as JSON.")
    ] = False,
) -> None:
    """Print the snapshot id of a workspace: a hash of the paths and contents of its files.

    In a git checkout, tracked and untracked files count, ignored ones do not; elsewhere, all but
    hidden ones. `onceward.json` and the folders that runs write never count.

    Example: `onceward keys snapshot .`
    """
    from onceward.keys import snapshot as take

    taken = take(directory)
    if json_output:
        print_json({"id": taken.id, "files": [asdict(file) for file in taken.files]})
        return
    print(taken.id)
    if files:
        for file in taken.files:
            print(f"{file.sha256}  {file.size:>10}  {file.path}")
