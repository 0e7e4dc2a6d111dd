"""`onceward agent`: be an agent on its pipes, for an orchestrator's commands or for a chat."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Annotated

import typer

from onceward.cli.output import JsonFlag, group
from onceward.errors import InvalidArgument
from onceward.seams import read_named

app = group("Be an agent: wrap any program as one, or play a scenario.")

CHAT = "chat"

AgentType = Annotated[
    str, typer.Option("--type", help="builder, reviewer, spec_maintainer or chat.")
]


@app.command("exec", context_settings={"allow_interspersed_args": False})
def exec_(
    program: Annotated[
        list[str], typer.Argument(metavar="PROGRAM", help="A program and its arguments.")
    ],
    agent_type: AgentType,
    actions: Annotated[
        str | None, typer.Option(help="Commands it takes, by commas; else those of its type.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="The prompt, with placeholders such as `{goal}` or `{text}`.")
    ] = None,
    prompt_file: Annotated[
        Path | None, typer.Option(help="A file with the prompt, read at the start.")
    ] = None,
    stdin: Annotated[
        bool,
        typer.Option(
            "--stdin/--argument", help="Give the prompt on standard input, or as last argument."
        ),
    ] = True,
    check: Annotated[
        str | None, typer.Option(help="A line for the shell that decides about the tests.")
    ] = None,
    verdict: Annotated[
        str | None, typer.Option(help="How it judges: json, exit or text. Without: json.")
    ] = None,
    allow_failures: Annotated[
        bool, typer.Option("--allow-failures", help="Go on although the check fails.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds for the program; the deadline counts anyway.")
    ] = None,
    json_output: JsonFlag = False,  # noqa: ARG001 - read where errors are printed
) -> None:
    """Answer commands by running a program: a prompt in, changed files and a verdict out.

    Example: `onceward agent exec --type builder --check "pytest -q" -- python fixer.py`

    In a chat: what people said in, and what it prints is the answer.

    Example: `onceward agent exec --type chat --prompt "{text}" -- python answer.py`
    """
    _check_type(agent_type)
    if agent_type == CHAT:
        _refuse_for_chat(actions, check, verdict, allow_failures or None)
        from onceward.agents.chat_exec import ChatWrapping, chat_exec_agent

        chat = ChatWrapping(
            program=tuple(program),
            template=_template(prompt, prompt_file),
            is_argument=not stdin,
            seconds=timeout,
        )
        chat_exec_agent(chat).run()
        return
    from onceward.agents.exec import ACTIONS, Wrapping, exec_agent
    from onceward.agents.verdicts import WORDS

    wrapping = Wrapping(
        type=agent_type,
        program=tuple(program),
        actions=_actions(actions, ACTIONS.get(agent_type, ())),
        template=_template(prompt, prompt_file),
        is_argument=not stdin,
        check=check,
        verdict=verdict or ("json" if agent_type in WORDS else None),
        allows_failures=allow_failures,
        seconds=timeout,
    )
    exec_agent(wrapping).run()


@app.command()
def script(
    scenario: Annotated[Path, typer.Argument(help="A JSON file that says what to do.")],
    agent_type: AgentType,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the file is right.")
    ] = False,
    json_output: JsonFlag = False,
) -> None:
    """Answer commands, or people, as a scenario file says, well behaved or not.

    Example: `onceward agent script scenario.json --type builder`
    """
    from onceward.agents.scenarios import read_scenario

    _check_type(agent_type)
    found = read_scenario(scenario)
    if check:
        from onceward.cli.output import print_json

        if json_output:
            print_json({"ok": True})
        else:
            print(f"{scenario} is right")
        return
    with os.fdopen(os.dup(1), "wb", buffering=0) as wire:
        if agent_type == CHAT:
            from onceward.agents.chat_script import chat_script_agent

            chat_script_agent(found, wire=wire).run()
        else:
            from onceward.agents.script import script_agent

            script_agent(found, agent_type, wire=wire).run()


def _check_type(given: str) -> None:
    from onceward.agents.messages import AGENT_TYPES

    known = (*AGENT_TYPES, CHAT)
    if given not in known:
        message = f"--type: {given!r} is no type of agent"
        raise InvalidArgument(message, fix=f"say one of {', '.join(known)}", field="type")


def _refuse_for_chat(*given: object) -> None:
    """Refuse what makes no sense where people are answered."""
    for option, value in zip(("actions", "check", "verdict", "allow-failures"), given, strict=True):
        if value is not None:
            message = f"--{option}: is not for chats"
            raise InvalidArgument(message, fix="leave it out, or say another --type", field=option)


def _actions(given: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    if given is None:
        return ()
    names = tuple(each.strip() for each in given.split(",") if each.strip())
    wrong = [each for each in names if each not in known]
    if wrong or not names:
        message = f"--actions: {', '.join(wrong) or 'nothing'} is no action of this type of agent"
        raise InvalidArgument(message, fix=f"say some of {','.join(known)}", field="actions")
    return names


def _template(text: str | None, path: Path | None) -> str | None:
    if text is not None and path is not None:
        message = "--prompt and --prompt-file are two prompts"
        raise InvalidArgument(message, fix="give one of them", field="prompt")
    if path is None:
        return text
    try:
        data = read_named(path, name="--prompt-file", fix="name a readable file with the prompt")
        return io.StringIO(data.decode(), newline=None).read()
    except UnicodeDecodeError as exc:
        message = f"--prompt-file: {path} is not UTF-8 text"
        raise InvalidArgument(message, fix="save it as UTF-8", path=str(path)) from exc
