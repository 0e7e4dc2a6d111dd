"""Prompts: the text that tells a program what a command wants. Knows no process and no message.

A template of the user's own is filled in by name; every other brace in it stays as it is, because
prompts show code and JSON. In a chat no text can pose as another speaker's line: names are quoted
where they could be more than a name, and the further lines of a text are indented.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from onceward.agents.chat_messages import ChatMessage, last_call
from onceward.keys import canonical_json

#: Inputs that a prompt shows in places of their own.
_SHOWN_APART: Final = frozenset({"goal", "changes", "round", "previous"})
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
#: All that a reader may take for the end of a line; the same as `str.splitlines` does.
_LINE_END: Final = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_INDENT: Final = "    "
#: A name that is shown as it is: it has no colon, quote or control character.
_PLAIN_NAME: Final = re.compile(r"\w(?:[\w .@+'()/#-]*[\w.)])?")
#: Options, for some programs commands (`vim +q`), and for others files of options (`@file`).
_OPTION_BEGINNINGS: Final = ("-", "+", "@")

_OPENINGS: Final[Mapping[str, str]] = {
    "implement": "Implement the following in this working directory, then stop.",
    "implement_changes": "Make the requested changes in this working directory, then stop.",
    "review": "Review what was done in this working directory. Do not change any file.",
    "update_spec": "Bring the specification in line with what was done, if that is needed.",
}


_CHAT: Final = """\
You take part in the chat {group}. This was said since you last answered. Every message begins with
the name of its sender; indented lines belong to the message above them.

{messages}

{sender} is waiting for your answer. Print the answer and nothing else: it is sent as it is.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What a command asks for, as far as a prompt tells it."""

    action: str
    task_id: str
    inputs: Mapping[str, Any]
    expected_outputs: Sequence[Mapping[str, Any]] = ()
    #: What happened before: the last error, tests, findings, changed files and their diff.
    context: Mapping[str, Any] = field(default_factory=dict)
    #: The command line that decides about the result, if there is one.
    check: str | None = None
    #: How the program is to say its verdict, if it gives one.
    verdict: str | None = None

    @property
    def round(self) -> int:
        """Return how often this was asked for the task, from 1."""
        given = self.inputs.get("round", 1)
        return given if isinstance(given, int) else 1

    def parts(self) -> dict[str, str]:
        """Return what each placeholder stands for."""
        other = {name: value for name, value in self.inputs.items() if name not in _SHOWN_APART}
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


def prompt(request: Request, template: str | None = None) -> str:
    """Return the text for a program: from the template, or one that says all there is to say."""
    parts = request.parts()
    return fill(template, parts) if template is not None else _standard(request, parts)


def chat_prompt(group: str, messages: Sequence[ChatMessage], template: str | None = None) -> str:
    """Return the text for a program that takes part in a chat; no text poses as another speaker.

    With the template `{text}` alone there is but one speaker, and the text is unchanged.
    """
    template, parts = _CHAT if template is None else template, chat_parts(group, messages)
    if template.strip() != "{text}":
        names = {each: _name(parts[each]) for each in ("sender", "id", "group")}
        parts |= {**names, "text": _indented(parts["text"])}
    return fill(template, parts)


def chat_parts(group: str, messages: Sequence[ChatMessage]) -> dict[str, str]:
    """Return what each placeholder stands for in a chat."""
    call = last_call(messages)
    return {
        "text": call.text,
        "sender": call.sender,
        "id": call.id,
        "group": group,
        "messages": "\n".join(f"{_name(each.sender)}: {_indented(each.text)}" for each in messages),
        "count": str(len(messages)),
    }


def as_argument(text: str, template: str | None) -> str:
    """Return a prompt as an argument of a program: it is no option unless its template is one.

    A space comes before what a program could take for an option. `--` would not do: after
    `--message` it would be the message. No argument can hold a NUL.
    """
    is_risky = text.startswith(_OPTION_BEGINNINGS) and not (template or "").startswith(text[0])
    return (" " if is_risky else "") + text.replace("\0", "\ufffd")


def fill(template: str, parts: Mapping[str, str]) -> str:
    """Put each part in the place of its name in braces; what was put in is not looked at again."""
    return _PLACEHOLDER.sub(lambda found: parts.get(found[1], found[0]), template)


def _indented(text: str) -> str:
    """Indent every line but the first; nothing else of the text changes."""
    return _LINE_END.sub(lambda end: end[0] + _INDENT, text)


def _name(text: str) -> str:
    """Return a name on one line; one that could be read as more than a name in JSON's quotes."""
    if _PLAIN_NAME.fullmatch(text):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    # Neither line ends nor marks that turn the direction of what follows.
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in quoted)


def changes(given: object) -> list[str]:
    """Return what was asked to be changed, one text each, whatever the reviewer's form was."""
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
    said = next((given[name] for name in ("comment", "message", "text") if name in given), None)
    if said is None:
        return _text(given)
    place = ":".join(str(given[name]) for name in ("path", "line") if name in given)
    return f"{place}: {_text(said)}" if place else _text(said)


def _output(given: Mapping[str, Any]) -> str:
    needed = "" if given.get("required", True) else " (optional)"
    description = f": {given['description']}" if given.get("description") else ""
    return f"- {given.get('path', '')}{needed}{description}"


def _tests(given: object) -> str:
    """Return how the last build was tested: its status, and the end of what the check printed."""
    if not isinstance(given, Mapping):
        return ""
    code = f" (exit code {given['exit_code']})" if "exit_code" in given else ""
    output = f"\n{given['output']}" if given.get("output") else ""
    return f"{given.get('status')}{code}{output}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical_json(value).decode()


def _standard(request: Request, parts: Mapping[str, str]) -> str:
    opening = _OPENINGS.get(request.action, f"Do this in this working directory: {request.action}.")
    numbered = f" (round {parts['round']})" if request.round > 1 else ""
    sections = [f"{opening}\n\nTask {parts['task_id']}{numbered}: {parts['goal']}"]
    titles = (
        ("changes", "Changes requested by the last review:\n"),
        ("last_error", "The last attempt failed: "),
        ("tests", "The last check of this work: "),
        ("findings", "What you found the last time:\n"),
        ("changed_files", "Files that this task has changed so far:\n"),
        ("diff", "How they changed:\n"),
        ("inputs", "More about the task:\n"),
        ("expected_outputs", "Files that must be there afterwards:\n"),
        ("check", "Afterwards this command decides whether it worked: "),
        ("verdict", ""),
    )
    sections += [title + parts[name] for name, title in titles if parts[name]]
    return "\n\n".join(sections) + "\n"
