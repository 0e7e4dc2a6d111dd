"""`onceward runs`: list runs, show their commands, verify their files, explain their keys."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from onceward.cli.orchestrate import WorkspaceOption, latest_run, open_config, runs_are_named
from onceward.cli.output import JsonFlag, group, print_json
from onceward.cli.text_tables import print_table
from onceward.errors import FileMissing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceward.orchestrator.models import CommandExplanation, CommandView, TaskRunSummary
    from onceward.orchestrator.orchestrator import Orchestrator

app = group("List, show, verify and explain runs.")

#: How much of one part of a key is shown to people.
PART_CHARACTERS_MAX: Final = 400
_Run = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN", help="The run's id. Default: the latest run.", show_default=False
    ),
]


@app.command("list")
def list_runs(workspace: WorkspaceOption = None, json_output: JsonFlag = False) -> None:
    """List the runs of a workspace, newest first: status, tasks, steps, start and duration.

    Exit 0 even without runs; 2 if the directory has no `onceward.json`.

    Example: `onceward runs list`
    """
    found = _orchestrator(workspace).runs()
    if json_output:
        print_json({"runs": [asdict(each) for each in found]})
        return
    if not found:
        print("no runs yet; start one with `onceward run --task …`")
        return
    titles = ("run", "status", "tasks", "steps", "started", "took", "resumed")
    print_table(titles, (_row(each) for each in found))


@app.command()
def show(
    run: _Run = None, workspace: WorkspaceOption = None, json_output: JsonFlag = False
) -> None:
    """Show the commands of a run: key, stage, round, attempts, agent, duration, artifacts.

    A command is what an agent is asked to do in one step. Exit 2 if there is no such run, or none
    at all.

    Example: `onceward runs show run-20260301-093000-1a2b3c4d`
    """
    orchestrator = _orchestrator(workspace)
    with runs_are_named():
        view = orchestrator.show(_chosen(orchestrator, run))
    if json_output:
        print_json(asdict(view))
        return
    for line in _summary_lines(view.summary):
        print(line)
    for command in view.commands:
        print()
        for line in _command_lines(command):
            print(line)


@app.command()
def verify(
    run: _Run = None, workspace: WorkspaceOption = None, json_output: JsonFlag = False
) -> None:
    """Verify a run's ledger, receipts, artifacts and manifests; exit 1 if one is wrong.

    An artifact that was changed after its run counts as wrong, also when a later run changed it. It
    also compares the delivered files with those that were approved: for the latest run the files as
    they are now. Changes nothing; exit 2 if there is no such run.

    Example: `onceward runs verify`
    """
    from onceward.orchestrator.transcript import describe_problem

    orchestrator = _orchestrator(workspace)
    with runs_are_named():
        found = orchestrator.verify(_chosen(orchestrator, run))
    if json_output:
        print_json({**asdict(found), "ok": found.ok})
    else:
        counts = f"{found.records} records, {found.receipts} receipts, {found.artifacts} artifacts"
        print(f"{found.run_id}: {counts}: {'all as recorded' if found.ok else 'not as recorded'}")
        how = {True: "as approved", False: "NOT as approved", None: "unknown whether as approved"}
        print(f"delivered files: {how[found.is_as_approved]}")
        for finding in found.findings:
            print(f"  {describe_problem(finding.path, finding.problem)}")
    if not found.ok:
        raise typer.Exit(1)


@app.command()
def explain(
    run: _Run = None, workspace: WorkspaceOption = None, json_output: JsonFlag = False
) -> None:
    """Explain why each command was issued and sent again, and what its key is made of.

    It also says what `onceward resume` does with the command. Exit 2 if there is no such run, or
    none at all.

    Example: `onceward runs explain --json`
    """
    orchestrator = _orchestrator(workspace)
    with runs_are_named():
        explanations = orchestrator.explain(_chosen(orchestrator, run))
    if json_output:
        print_json({"commands": [asdict(each) for each in explanations]})
        return
    for place, explanation in enumerate(explanations):
        if place:
            print()
        for line in _explanation_lines(explanation):
            print(line)


def _orchestrator(workspace: Path | None) -> Orchestrator:
    from onceward.orchestrator.orchestrator import Orchestrator

    return Orchestrator(open_config(workspace))


def _chosen(orchestrator: Orchestrator, run: str | None) -> str:
    """Return the id of the chosen run, by default the latest."""
    found = run or latest_run(orchestrator.config.workspace)
    if found is None:
        message = "there are no runs in this workspace yet"
        raise FileMissing(message, fix="start one with `onceward run --task …`")
    return found


# --- text output -------------------------------------------------------------------


def _row(run: TaskRunSummary) -> tuple[str, ...]:
    from onceward.orchestrator.transcript import elapsed

    return (
        run.run_id,
        run.status
        + (", unchecked" if run.unchecked else "")
        + (", damaged" if run.damaged or not run.started_at else ""),
        ", ".join(run.tasks),
        str(run.steps),
        run.started_at[:19].replace("T", " "),
        elapsed(run.started_at, run.updated_at) or "",
        _times(run.resumed) if run.resumed else "",
    )


def _summary_lines(run: TaskRunSummary) -> Iterator[str]:
    from onceward.orchestrator.transcript import elapsed, printable

    took = elapsed(run.started_at, run.updated_at)
    yield f"{run.run_id}: {run.status}" + (f": {printable(run.reason)}" if run.reason else "")
    yield f"tasks    {', '.join(run.tasks)}"
    if run.status != "done" and run.stage is not None:
        yield f"at       {run.task_id} {run.stage}" + (
            f" round {run.round}" if (run.round or 1) > 1 else ""
        )
    if run.unchecked:
        yield f"unchecked {', '.join(run.unchecked)}: no check has passed"
    yield f"started  {run.started_at}, took {took}" if took else "started  unknown"
    if run.resumed:
        yield f"resumed  {_times(run.resumed)}"
    if run.damaged or not run.started_at:
        what = f"{run.damaged} lines of the ledger" if run.damaged else "its beginning is lost"
        yield f"damaged  {what}; see `onceward runs verify {run.run_id}`"


def _command_lines(command: CommandView) -> Iterator[str]:
    from onceward.orchestrator.transcript import elapsed, printable

    stage = command.stage + (f" round {command.round}" if command.round > 1 else "")
    yield f"{command.step}. {command.task_id} {stage} · {command.agent} · {command.state}"
    yield f"   key       {command.idempotency_key}"
    yield f"   attempts  {command.attempts}, given to the agent {_times(command.sent)}"
    if command.event:
        took = elapsed(command.asked_at, command.answered_at)
        status = f" {printable(command.status)}" if command.status else ""
        yield f"   answer    {printable(command.event)}{status}" + (
            f" after {took}" if took else ""
        )
    for artifact in command.artifacts:
        digest = str(artifact.get("sha256", ""))[:12]
        path, size = printable(artifact.get("path")), artifact.get("size")
        yield f"   artifact  {path} ({size} bytes, {digest})"
    if command.problem:
        yield f"   problem   {printable(command.problem)}"


def _explanation_lines(explanation: CommandExplanation) -> Iterator[str]:
    from onceward.keys import canonical_json
    from onceward.orchestrator.transcript import printable

    stage = explanation.stage + (f" round {explanation.round}" if explanation.round > 1 else "")
    yield f"{explanation.step}. {explanation.task_id} {stage}"
    for sentence in explanation.why:
        yield f"   {printable(sentence, PART_CHARACTERS_MAX)}"
    yield f"   {explanation.idempotency_key} is made of"
    for name, value in explanation.components.items():
        text = value if isinstance(value, str) else canonical_json(_plain(value)).decode()
        yield f"     {name:16} {printable(text, PART_CHARACTERS_MAX)}"


def _plain(value: Any) -> Any:  # noqa: ANN401 - any JSON, perhaps with tuples
    return dict(value) if hasattr(value, "keys") else value


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
