"""`onceward agent`: run as an agent on stdin and stdout, for an orchestrator or a chat."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Annotated

import typer

from onceward.cli.output import group
from onceward.errors import InvalidArgument
from onceward.system import read_user_file

app = group("Wrap any program as an agent, or play a scenario.")

CHAT = "chat"

AgentType = Annotated[
    str,
    typer.Option("--type", help="Required. One of builder, reviewer, spec_maintainer and chat."),
]
_ErrorsAsJson = Annotated[bool, typer.Option("--json", help="Print errors at the start as JSON.")]
_Program = Annotated[
    list[str],
    typer.Argument(
        metavar="PROGRAM",
        help="Program to run for each command, and its arguments; put `--` before it.",
    ),
]
_Actions = Annotated[
    str | None,
    typer.Option(
        help="Accepted actions, separated by commas, such as `implement`. "
        "Default: all of its type. Not for chat."
    ),
]
_Prompt = Annotated[
    str | None,
    typer.Option(
        help="Prompt with placeholders, such as `{goal}`, or `{text}` for chat. "
        "Default: a prompt with all that the agent knows."
    ),
]
_Check = Annotated[
    str | None,
    typer.Option(
        help="Shell command to run after the program; its exit code is the test result. "
        "For builders only. "
        "Default: the result is `unchecked`."
    ),
]
_Verdict = Annotated[
    str | None,
    typer.Option(
        help='How a reviewer or spec_maintainer gives its verdict: json (`{"verdict": "approved"}` '
        "at the end), exit (0 approved, 1 changes requested, any other code is a failure) or text "
        "(a line `VERDICT: approved`). Default: json."
    ),
]
_Timeout = Annotated[
    float | None,
    typer.Option(
        help="Kill the program after this many seconds. "
        "Default: at the command's deadline, or at the group's --hard; these always apply."
    ),
]


@app.command("exec", context_settings={"allow_interspersed_args": False})
def exec_(
    program: _Program,
    agent_type: AgentType,
    actions: _Actions = None,
    prompt: _Prompt = None,
    prompt_file: Annotated[
        Path | None, typer.Option(help="File with the prompt. Not with --prompt.")
    ] = None,
    stdin: Annotated[
        bool,
        typer.Option(
            "--stdin/--argument",
            help="Pass the prompt on standard input, or as the program's last argument.",
        ),
    ] = True,
    check: _Check = None,
    verdict: _Verdict = None,
    allow_failures: Annotated[
        bool,
        typer.Option(
            "--allow-failures",
            help="Let the run continue although --check fails; the failed tests are reported. "
            "For builders only.",
        ),
    ] = False,
    timeout: _Timeout = None,
    json_output: _ErrorsAsJson = False,  # noqa: ARG001 - read where errors are printed
) -> None:
    """Serve as an agent on stdin and stdout: run a program for each command of an orchestrator.

    `onceward run` starts it: put this line, as a list of words, into `agents.builder.command` of
    `onceward.json`. The program gets the prompt; the answer is the files that it changed, the
    result of the check, or its verdict.

    Example: `onceward agent exec --type builder --check "pytest -q" -- python fixer.py`

    With --type chat a dispatcher starts it: the messages are the prompt, the output is the reply.

    Example: `onceward agent exec --type chat --prompt "{text}" -- python answer.py`
    """
    _check_type(agent_type)
    if agent_type == CHAT:
        _refuse_for_chat(actions, check, verdict, allow_failures or None)
        from onceward.agents.chat_exec import ChatExecOptions, chat_exec_agent

        chat = ChatExecOptions(
            program=tuple(program),
            template=_template(prompt, prompt_file),
            is_argument=not stdin,
            seconds=timeout,
        )
        chat_exec_agent(chat).run()
        return
    from onceward.agents.exec import exec_agent
    from onceward.agents.exec_options import ACTIONS, ExecOptions
    from onceward.agents.review_verdicts import VERDICTS

    wrapping = ExecOptions(
        type=agent_type,
        program=tuple(program),
        actions=_actions(actions, ACTIONS.get(agent_type, ())),
        template=_template(prompt, prompt_file),
        is_argument=not stdin,
        check=check,
        verdict=verdict or ("json" if agent_type in VERDICTS else None),
        allows_failures=allow_failures,
        seconds=timeout,
    )
    exec_agent(wrapping).run()


@app.command()
def script(
    scenario: Annotated[Path, typer.Argument(help="The scenario, a JSON file.")],
    agent_type: AgentType,
    check: Annotated[
        bool, typer.Option("--check", help="Validate the file and exit; 2 if it is invalid.")
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print the result of --check, and errors, as JSON.")
    ] = False,
) -> None:
    """Play the part of an agent from a scenario file, for tests; it can also misbehave.

    An orchestrator or a dispatcher starts it, and speaks with it on stdin and stdout. Actions that
    the scenario does not name succeed.

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
            print(f"{scenario} is valid")
        return
    with os.fdopen(os.dup(1), "wb", buffering=0) as wire:
        if agent_type == CHAT:
            from onceward.agents.chat_script import chat_script_agent

            chat_script_agent(found, wire=wire).run()
        else:
            from onceward.agents.script_agent import script_agent

            script_agent(found, agent_type, wire=wire).run()


def _check_type(given: str) -> None:
    from onceward.agents.protocol import AGENT_TYPES

    known = (*AGENT_TYPES, CHAT)
    if given not in known:
        message = f"--type: {given!r} is not a type of agent"
        raise InvalidArgument(message, fix=f"pass one of {', '.join(known)}", field="type")


def _refuse_for_chat(*given: object) -> None:
    """Reject options that do not apply to a chat agent."""
    for option, value in zip(("actions", "check", "verdict", "allow-failures"), given, strict=True):
        if value is not None:
            message = f"--{option}: does not apply to --type chat"
            raise InvalidArgument(message, fix="omit it, or pass another --type", field=option)


def _actions(given: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    if given is None:
        return ()
    names = tuple(each.strip() for each in given.split(",") if each.strip())
    wrong = [each for each in names if each not in known]
    if wrong or not names:
        problem = f"{wrong[0]!r} is not an action of this agent type" if wrong else "is empty"
        message = f"--actions: {problem}; the agent was not started"
        fix = f"pass one or more of {', '.join(known)}, separated by commas"
        raise InvalidArgument(message, fix=fix, field="actions")
    return names


def _template(text: str | None, path: Path | None) -> str | None:
    if text is not None and path is not None:
        message = "--prompt and --prompt-file exclude each other"
        raise InvalidArgument(message, fix="pass one of them", field="prompt")
    if path is None:
        return text
    try:
        data = read_user_file(
            path, name="--prompt-file", fix="name a readable file with the prompt"
        )
        return io.StringIO(data.decode(), newline=None).read()
    except UnicodeDecodeError as exc:
        message = f"--prompt-file: {path} is not UTF-8 text"
        raise InvalidArgument(message, fix="save it as UTF-8", path=str(path)) from exc
