"""Prompts: build the prompt of a program from a command, or from the messages of a chat.

In a user's template only known placeholders are replaced; other braces stay, because prompts show
code and JSON. In a chat no text can pose as another sender's message: ambiguous names are quoted,
and all lines but the first of a text are indented.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from onceward.agents.chat_messages import ChatMessage, last_trigger
from onceward.keys import canonical_json

#: Inputs that have their own section in a prompt.
_SEPARATE_INPUTS: Final = frozenset({"goal", "changes", "round", "previous"})
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
#: All line endings that `str.splitlines` recognises.
_LINE_END: Final = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_INDENT: Final = "    "
#: A name that needs no quotes: it has no colon, quote or control character.
_PLAIN_NAME: Final = re.compile(r"\w(?:[\w .@+'()/#-]*[\w.)])?")
#: Prefixes of options, of commands (`vim +q`) and of option files (`@file`).
_OPTION_BEGINNINGS: Final = ("-", "+", "@")

_INSTRUCTIONS: Final[Mapping[str, str]] = {
    "implement": "Implement the following task in this working directory, then stop.",
    "implement_changes": "Make the requested changes in this working directory, then stop.",
    "review": "Review the work on this task in this working directory. Do not change any file.",
    "update_spec": "Update the specification to match the work on this task, if necessary.",
}


_CHAT_TEMPLATE: Final = """\
You take part in the chat {group}. Below are the messages since your last answer. Each message
begins with the name of its sender; indented lines belong to the message above them.

{messages}

{sender} is waiting for your answer. Print only the answer: it is sent unchanged.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptRequest:
    """The parts of a command that a prompt contains."""

    action: str
    task_id: str
    inputs: Mapping[str, Any]
    expected_outputs: Sequence[Mapping[str, Any]] = ()
    #: What happened before: the last error, tests, findings, changed files and their diff.
    context: Mapping[str, Any] = field(default_factory=dict)
    #: The shell command that decides whether the work passes, if there is one.
    check: str | None = None
    #: The instruction how to give the verdict, if the program gives one.
    verdict: str | None = None

    @property
    def round(self) -> int:
        """Return the round of this action for the task, from 1."""
        given = self.inputs.get("round", 1)
        return given if isinstance(given, int) else 1

    def placeholders(self) -> dict[str, str]:
        """Return the value of each placeholder."""
        other = {name: value for name, value in self.inputs.items() if name not in _SEPARATE_INPUTS}
        return {
            "goal": _text(self.inputs.get("goal", "")),
            "task_id": self.task_id,
            "action": self.action,
            "round": str(self.round),
            "changes": "\n".join(f"- {each}" for each in changes(self.inputs.get("changes"))),
            "expected_outputs": "\n".join(_output(each) for each in self.expected_outputs),
            "inputs": "\n".join(f"- {name}: {_text(value)}" for name, value in other.items()),
            "check": self.check or "",
            "verdict": self.verdict or "",
            "last_error": _text(self.context.get("last_error", "")),
            "tests": _tests(self.context.get("tests")),
            "findings": "\n".join(f"- {each}" for each in changes(self.context.get("findings"))),
            "changed_files": "\n".join(f"- {each}" for each in self._changed_files()),
            "diff": _text(self.context.get("diff", "")),
        }

    def _changed_files(self) -> list[str]:
        return [_text(each) for each in self.context.get("changed_files", ())]


def prompt(request: PromptRequest, template: str | None = None) -> str:
    """Return the prompt for a command: from the template, or one with everything known."""
    placeholders = request.placeholders()
    return (
        fill(template, placeholders)
        if template is not None
        else _default_prompt(request, placeholders)
    )


def chat_prompt(group: str, messages: Sequence[ChatMessage], template: str | None = None) -> str:
    """Return the prompt for a chat, in which no text can pose as another sender's message.

    The template `{text}` alone returns the text unchanged.
    """
    template, placeholders = (
        _CHAT_TEMPLATE if template is None else template,
        chat_placeholders(group, messages),
    )
    if template.strip() != "{text}":
        names = {each: _name(placeholders[each]) for each in ("sender", "id", "group")}
        placeholders |= {**names, "text": _indented(placeholders["text"])}
    return fill(template, placeholders)


def chat_placeholders(group: str, messages: Sequence[ChatMessage]) -> dict[str, str]:
    """Return the value of each placeholder in a chat."""
    call = last_trigger(messages)
    return {
        "text": call.text,
        "sender": call.sender,
        "id": call.id,
        "group": group,
        "messages": "\n".join(f"{_name(each.sender)}: {_indented(each.text)}" for each in messages),
        "count": str(len(messages)),
    }


def as_argument(text: str, template: str | None) -> str:
    """Return a prompt as an argument that is not read as an option, unless its template is one.

    Text that looks like an option gets a leading space. `--` would not help: after `--message` it
    would be the message. NUL characters are replaced, since no argument can contain them.
    """
    is_risky = text.startswith(_OPTION_BEGINNINGS) and not (template or "").startswith(text[0])
    return (" " if is_risky else "") + text.replace("\0", "\ufffd")


def fill(template: str, placeholders: Mapping[str, str]) -> str:
    """Replace each placeholder by its value; replaced text is not expanded again."""
    return _PLACEHOLDER.sub(lambda found: placeholders.get(found[1], found[0]), template)


def _indented(text: str) -> str:
    """Indent every line but the first, and change nothing else."""
    return _LINE_END.sub(lambda end: end[0] + _INDENT, text)


def _name(text: str) -> str:
    """Return a name on one line; quoted as JSON if it could be read as more than a name."""
    if _PLAIN_NAME.fullmatch(text):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    # Escape line endings and characters that change the text direction.
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in quoted)


def changes(given: object) -> list[str]:
    """Return the requested changes as texts, whatever JSON shape the reviewer used."""
    if given is None or given == "":
        return []
    if isinstance(given, Mapping):
        for name in ("comments", "changes", "reasons"):
            if name in given:
                return changes(given[name])
        return [_comment(given)] if given else []
    if isinstance(given, (list, tuple)):
        return [_comment(each) for each in given]
    return [_text(given)]


def _comment(given: object) -> str:
    if not isinstance(given, Mapping):
        return _text(given)
    text = next((given[name] for name in ("comment", "message", "text") if name in given), None)
    if text is None:
        return _text(given)
    place = ":".join(str(given[name]) for name in ("path", "line") if name in given)
    return f"{place}: {_text(text)}" if place else _text(text)


def _output(given: Mapping[str, Any]) -> str:
    needed = "" if given.get("required", True) else " (optional)"
    description = f": {given['description']}" if given.get("description") else ""
    return f"- {given.get('path', '')}{needed}{description}"


def _tests(given: object) -> str:
    """Return the test status of the last build and the end of the check's output."""
    if not isinstance(given, Mapping):
        return ""
    code = f" (exit code {given['exit_code']})" if "exit_code" in given else ""
    output = f"\n{given['output']}" if given.get("output") else ""
    return f"{given.get('status')}{code}{output}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical_json(value).decode()


def _default_prompt(request: PromptRequest, placeholders: Mapping[str, str]) -> str:
    opening = _INSTRUCTIONS.get(
        request.action, f"Do this in this working directory: {request.action}."
    )
    numbered = f" (round {placeholders['round']})" if request.round > 1 else ""
    sections = [f"{opening}\n\nTask {placeholders['task_id']}{numbered}: {placeholders['goal']}"]
    titles = (
        ("changes", "Changes requested by the last review:\n"),
        ("last_error", "The last attempt failed: "),
        ("tests", "Result of the last check: "),
        ("findings", "Your findings in the last review:\n"),
        ("changed_files", "Files that this task has changed so far:\n"),
        ("diff", "Diff of these files:\n"),
        ("inputs", "Task inputs:\n"),
        ("expected_outputs", "Files that must exist when you are done:\n"),
        ("check", "This command then checks your work: "),
        ("verdict", ""),
    )
    sections += [title + placeholders[name] for name, title in titles if placeholders[name]]
    return "\n\n".join(sections) + "\n"
