"""`onceward dispatch groups`: list, add, change and remove groups and their agents."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from onceward.cli.change_plan import Yes, print_change
from onceward.cli.dispatch_format import print_table, visible
from onceward.cli.output import JsonFlag, group, print_json, warn
from onceward.cli.store_option import StoreUrl, open_named_store
from onceward.errors import GroupMissing, InvalidArgument

if TYPE_CHECKING:
    from onceward.client import Onceward
    from onceward.dispatch.groups import Groups
    from onceward.dispatch.models import Group, GroupStatus

app = group("List, add, change and remove groups.")


def _readable(name: str | None) -> str | None:
    """Reject a name that is not valid text."""
    if name is not None and name.encode(errors="replace").decode() != name:
        raise GroupMissing(name.encode(errors="replace").decode())
    return name


GroupName = Annotated[str, typer.Argument(help="The group's name.", callback=_readable)]
OneGroup = Annotated[
    str | None,
    typer.Argument(
        help="Only this group, with its latest deliveries and replays. Default: all groups.",
        callback=_readable,
    ),
]
_Word = Annotated[
    str | None,
    typer.Option(
        help="Word that triggers the agent, such as `@bot`. Required for the triggers prefix and "
        "mention; not with always."
    ),
]
_Workdir = Annotated[
    Path | None,
    typer.Option(
        help="Working directory of the agent. Default when added: a directory of its own."
    ),
]
_Idle = Annotated[
    float | None,
    typer.Option(help="Close an agent after this many idle seconds. Default when added: 300."),
]
_Hard = Annotated[
    float | None,
    typer.Option(
        help="Kill an agent that has not finished a delivery after this many seconds. "
        "Default when added: 1800."
    ),
]
_Trigger = Annotated[
    Literal["always", "prefix", "mention"] | None,
    typer.Option(
        help="When the agent runs: on every message (always), or on one with the word at the start "
        "(prefix) or anywhere (mention). "
        "Default when added: always."
    ),
]
_Channel = Annotated[
    str | None,
    typer.Option(
        help="Where replies go: `chat`, or a channel of your own program. "
        "Default when added: `chat`."
    ),
]


@app.command("list")
def list_groups(store: StoreUrl = None, json_output: JsonFlag = False) -> None:
    """List groups: trigger, agent, directory, channel, and whether they are paused.

    A group is a conversation with an agent. `onceward dispatch status` shows its work. Without
    groups, it prints how to add one; exit 0.

    Example: `onceward dispatch groups list`
    """
    with open_named_store(store) as ow:
        found = _groups(ow).list()
    if json_output:
        print_json({"items": [_plain(each) for each in found]})
    elif not found:
        print(
            'no groups yet; add one: onceward dispatch groups add team --agent "python3 agent.py"'
        )
    else:
        titles = ("group", "trigger", "agent", "directory", "channel", "state")
        print_table(titles, (_row(each) for each in found))


@app.command()
def add(
    name: GroupName,
    agent: Annotated[
        str, typer.Option(help="Required. The agent's command line, as one text; no shell runs it.")
    ],
    trigger: _Trigger = None,
    word: _Word = None,
    workdir: _Workdir = None,
    idle: _Idle = None,
    hard: _Hard = None,
    channel: _Channel = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Add a group: a conversation with an agent, which a dispatcher runs.

    Idempotent: adding it again with the same settings changes nothing. Exit 1 if the group exists
    with other settings; an omitted option means its default.

    Without --workdir, files in this directory that --agent names become absolute paths, because the
    agent runs in another directory.

    Example: `onceward dispatch groups add team --agent "python3 agent.py"`
    """
    from onceward.dispatch.channels import CHAT
    from onceward.dispatch.models import Group

    given = _given(agent, trigger, word, workdir, idle, hard)
    _check_word(trigger or "always", word)
    wanted = Group(name=name, **{"channel": channel or CHAT, **given})
    with open_named_store(store) as ow:
        is_there = _is_there(_groups(ow), name)
        made = _groups(ow).add(wanted)
    if json_output:
        print_json({**_plain(made), "isNew": not is_there})
        return
    print(f"{name} exists with the same settings" if is_there else f"added {name}")
    _print_group(made)


@app.command("set")
def set_group(
    name: GroupName,
    agent: Annotated[
        str | None, typer.Option(help="The agent's command line, as one text; no shell runs it.")
    ] = None,
    trigger: _Trigger = None,
    word: _Word = None,
    workdir: _Workdir = None,
    idle: _Idle = None,
    hard: _Hard = None,
    channel: _Channel = None,
    pause: Annotated[
        bool | None,
        typer.Option(
            "--pause/--resume",
            help="Stop new deliveries to its agent, or resume them; messages are stored meanwhile.",
        ),
    ] = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Change a group; a running agent keeps its settings, the next one gets the new ones.

    Settings without an option stay as they are, but --trigger without --word removes the word. A
    new trigger applies to new messages only. Exit 1 if there is no such group.

    Example: `onceward dispatch groups set team --pause`
    """
    changes = _given(agent, trigger, word, workdir, idle, hard)
    if channel is not None:
        changes["channel"] = channel
    if pause is not None:
        changes["is_paused"] = pause
    if not changes:
        message = "no option was passed; nothing was changed"
        raise InvalidArgument(message, fix="pass what to change, such as --pause")
    with open_named_store(store) as ow:
        before = _groups(ow).show(name)
        _check_word(str(changes.get("trigger", before.trigger)), word)
        if trigger == "always":
            changes["word"] = ""
        made = _groups(ow).set(name, **changes)
    if json_output:
        print_json(_plain(made))
        return
    print(f"changed {name}")
    _print_group(made)


@app.command()
def remove(
    name: GroupName,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Remove the group although its agent is working or messages wait for it. "
            "Default: refuse.",
        ),
    ] = False,
    yes: Yes = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Remove a group and its settings; its messages stay in the store.

    They get no answers, and unsent replies are never sent. If a group of this name is added again,
    unanswered messages are pending again. Exit 1 if there is no such group; with --yes, exit 2 if
    --force is needed.

    Example: `onceward dispatch groups remove team --yes`
    """
    from onceward.dispatch.operator_actions import Operators

    with open_named_store(store) as ow:
        status = Operators(ow.store).status_of(name)
        is_refused = (status.is_called or status.in_flight is not None) and not force
        if yes and is_refused:
            message = f"{name}: {_unanswered(status)}; nothing was removed"
            fix = (
                "wait until they are answered, or pass --force to remove it without answers to them"
            )
            raise InvalidArgument(message, fix=fix, field="force")
        if yes:
            _groups(ow).remove(name)
    facts = f"{status.pending} pending messages, {status.unsent} unsent replies"
    lines = [f"removed {name}" if yes else f"would remove {name}: {facts}"]
    if is_refused:
        lines.append(f"{_unanswered(status)}, so --yes needs --force, too")
    values = {"group": name, "pending": status.pending, "unsent": status.unsent}
    print_change(lines, applied=yes, json_output=json_output, needsForce=is_refused, **values)


def _unanswered(status: GroupStatus) -> str:
    if status.in_flight is not None:
        return f"its agent is answering, and {_are(status.pending, 'more ')} pending"
    return f"{_are(status.pending)} pending"


def _are(count: int, more: str = "") -> str:
    return f"1 {more}message is" if count == 1 else f"{count} {more}messages are"


def _groups(ow: Onceward) -> Groups:
    from onceward.dispatch.groups import Groups

    return Groups(ow.store)


def _is_there(groups: Groups, name: str) -> bool:
    try:
        groups.show(name)
    except GroupMissing:
        return False
    return True


def _given(
    agent: str | None,
    trigger: str | None,
    word: str | None,
    workdir: Path | None,
    idle: float | None,
    hard: float | None,
) -> dict[str, Any]:
    """Return the fields of a group that options name."""
    from onceward.dispatch.models import TriggerKind

    given = {
        "command": None if agent is None else _command(agent, workdir),
        "trigger": None if trigger is None else TriggerKind(trigger),
        "word": word,
        "workdir": None if workdir is None else _directory(workdir),
        "idle_seconds": idle,
        "hard_seconds": hard,
    }
    return {field: value for field, value in given.items() if value is not None}


def _check_word(trigger: str, word: str | None) -> None:
    """Reject a word that no trigger uses."""
    if word is not None and trigger == "always":
        message = f"word: the trigger always ignores the word {word!r}; nothing was changed"
        fix = "pass --trigger prefix or --trigger mention, too, or leave out --word"
        raise InvalidArgument(message, fix=fix, field="word")


def _directory(workdir: Path) -> str:
    if not workdir.is_dir():
        message = f"workdir: {workdir} is not a directory"
        raise InvalidArgument(message, fix="create it first, or correct it", field="workdir")
    return str(workdir.absolute())


def _command(agent: str, workdir: Path | None) -> tuple[str, ...]:
    """Return the words of a command line; what they name here is found from anywhere."""
    try:
        words = shlex.split(agent)
    except ValueError as exc:
        message = f"agent: {exc}"
        fix = "close the quotes, and write a backslash at the end twice"
        raise InvalidArgument(message, fix=fix, field="agent") from exc
    if workdir is None:
        # Links stay: the Python of a virtual environment is one.
        words = [str(Path(each).absolute()) if Path(each).is_file() else each for each in words]
    if words and not _is_found(words, workdir or Path()):
        warn(f"program {words[0]!r} is not found here; the dispatcher must find it")
    return tuple(words)


def _is_found(words: list[str], workdir: Path) -> bool:
    from onceward.agents.supervisor_limits import command_line

    program = command_line(words)[0]
    # A relative path with a slash is resolved from the agent's working directory.
    return shutil.which(str(workdir / program) if "/" in program else program) is not None


def _trigger(one: Group) -> str:
    return "every message" if str(one.trigger) == "always" else f"{one.trigger} {one.word}"


def _row(one: Group) -> tuple[object, ...]:
    state = "paused" if one.is_paused else "open"
    directory = one.workdir or "one of its own"
    return (one.name, _trigger(one), shlex.join(one.command), directory, one.channel, state)


def _print_group(one: Group) -> None:
    _, trigger, command, directory, channel, state = _row(one)
    print(f"agent      {visible(str(command))}")
    print(f"trigger    {visible(str(trigger))}")
    print(f"directory  {visible(str(directory))}")
    print(f"channel    {visible(str(channel))}")
    print(
        f"limits     closed after {one.idle_seconds:g} s idle, ended after {one.hard_seconds:g} s"
    )
    print(f"state      {state}")


def _plain(one: Group) -> dict[str, Any]:
    return {
        "name": one.name,
        "channel": one.channel,
        "command": list(one.command),
        "trigger": str(one.trigger),
        "word": one.word,
        "workdir": one.workdir,
        "idleSeconds": one.idle_seconds,
        "hardSeconds": one.hard_seconds,
        "isPaused": one.is_paused,
    }
