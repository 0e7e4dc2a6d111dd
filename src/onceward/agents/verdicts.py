"""Verdicts: what a program that judges has said, read from its exit code or from its output.

Owns the three forms and nothing else: which event a verdict becomes is the agent's business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from onceward.errors import NotCanonical, OncewardError
from onceward.keys import canonical_json

FORMS: Final = ("json", "exit", "text")
#: What may be said, by the type of agent.
WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "reviewer": ("approved", "changes_requested"),
    "spec_maintainer": ("updated", "no_changes_needed", "changes_requested"),
}
#: Only the end of what a program prints is searched.
SEARCHED_CHARACTERS_MAX: Final = 256 * 1024
#: Braces that open no JSON object are common in code; so many are looked at before giving up.
ATTEMPTS_MAX: Final = 2000
COMMENTS_MAX: Final = 100
COMMENTS_BYTES_MAX: Final = 32 * 1024
COMMENT_CHARACTERS_MAX: Final = 2000
#: Output that stands for a comment when the program gives none of its own.
TAIL_LINES: Final = 40

_LINE: Final = re.compile(r"^[\s*#>`_]*VERDICT[\s*`_]*:[\s*`_]*([A-Za-z_ -]+)", re.MULTILINE)
#: Command lines that print JSON put the model's own text under one of these names.
_ENVELOPES: Final = ("result", "response", "text", "content", "message", "output")
_ENVELOPE_DEPTH_MAX: Final = 3


class NoVerdict(OncewardError):
    """The program ended without a verdict that could be read; a retry may give one."""

    code = "NO_VERDICT"
    retryable = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """A judgement."""

    #: One of the words that the agent's type may say.
    status: str
    #: Texts, or objects such as `{"path": …, "line": …, "comment": …}`.
    comments: tuple[Any, ...] = ()


def instruction(form: str, agent_type: str) -> str:
    """Return the sentence that tells a program how to give its verdict."""
    words = WORDS[agent_type]
    if form == "json":
        said = " | ".join(f'"{word}"' for word in words)
        return f'End your answer with one JSON object: {{"verdict": {said}, "comments": ["…"]}}'
    if form == "text":
        return f"End your answer with one line: VERDICT: {' | '.join(words)}"
    return ""


def read_verdict(
    form: str, agent_type: str, *, exit_code: int, output: str, has_changed: bool
) -> Verdict:
    """Return what was said; raise NoVerdict when that cannot be made out.

    `has_changed` says whether files changed meanwhile, which is the difference between *updated*
    and *no changes needed* where a program only says that all is well.
    """
    if form == "exit":
        return _of_exit(agent_type, exit_code, output, has_changed=has_changed)
    read = _of_json if form == "json" else _of_text
    word, comments = read(output[-SEARCHED_CHARACTERS_MAX:])
    status = _status(word, agent_type, has_changed=has_changed)
    if status is None:
        message = f"the verdict {word[:100]!r} is none that a {agent_type} gives"
        raise NoVerdict(message, fix=f"say one of {', '.join(WORDS[agent_type])}")
    if status == "changes_requested" and not comments:
        comments = tail(output)
    return Verdict(status=status, comments=tuple(_bounded(comments)))


def tail(output: str) -> list[str]:
    """Return the last lines as one comment, or nothing."""
    text = "\n".join(output.strip().splitlines()[-TAIL_LINES:])
    return [text[-COMMENT_CHARACTERS_MAX:]] if text else []


def _of_exit(agent_type: str, exit_code: int, output: str, *, has_changed: bool) -> Verdict:
    if exit_code == 0:
        status = _status("approved", agent_type, has_changed=has_changed)
        assert status is not None, agent_type
        return Verdict(status=status)
    assert exit_code == 1, exit_code
    return Verdict(status="changes_requested", comments=tuple(tail(output)))


def _status(word: object, agent_type: str, *, has_changed: bool) -> str | None:
    if not isinstance(word, str):
        return None
    said = re.sub(r"[\s-]+", "_", word.strip().lower()).strip("_")
    if said in WORDS[agent_type]:
        return said
    if agent_type == "spec_maintainer" and said == "approved":
        return "updated" if has_changed else "no_changes_needed"
    return None


def _of_text(output: str) -> tuple[str, Sequence[Any]]:
    found = _LINE.findall(output)
    if not found:
        raise NoVerdict(fix="print a line such as `VERDICT: approved`")
    return found[-1], ()


def _of_json(output: str) -> tuple[str, Sequence[Any]]:
    judged = list(_judgements(output, _ENVELOPE_DEPTH_MAX))
    if not judged:
        raise NoVerdict(fix='print a JSON object such as {"verdict": "approved"} at the end')
    # Tools that print JSON have a `status` of their own, which is no judgement.
    meant = [each for each in judged if _is_known(_word(each))] or judged
    comments = meant[-1].get("comments") or []
    return _word(meant[-1]), comments if isinstance(comments, list) else [comments]


def _word(judged: Mapping[str, Any]) -> str:
    word = judged.get("verdict")
    return word if isinstance(word, str) else str(judged["status"])


def _is_known(word: str) -> bool:
    return any(_status(word, each, has_changed=False) for each in WORDS)


def _judgements(text: str, depth: int) -> Iterator[dict[str, Any]]:
    """Yield the objects in a text that hold a verdict, in order, and those inside envelopes."""
    for found in _objects(text):
        if isinstance(found.get("verdict"), str) or isinstance(found.get("status"), str):
            yield found
        for name in _ENVELOPES if depth else ():
            inner = found.get(name)
            if isinstance(inner, str):
                yield from _judgements(inner, depth - 1)
            elif isinstance(inner, dict):
                yield from _judgements(json.dumps(inner), depth - 1)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    decoder, place = json.JSONDecoder(), 0
    for _ in range(ATTEMPTS_MAX):
        place = text.find("{", place)
        if place < 0:
            return
        try:
            found, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            place += 1
            continue
        yield found


def _bounded(comments: Sequence[Any]) -> Iterator[Any]:
    """Keep what a message, and the key of the command that it leads to, can hold."""
    room = COMMENTS_BYTES_MAX
    for each in comments[:COMMENTS_MAX]:
        kept = _plain(each)
        room -= len(canonical_json(kept))
        if room < 0:
            return
        yield kept


def _plain(comment: Any) -> Any:  # noqa: ANN401 - any JSON value
    with suppress(NotCanonical, RecursionError):
        if not isinstance(comment, str) and len(canonical_json(comment)) <= COMMENT_CHARACTERS_MAX:
            return comment
    text = comment if isinstance(comment, str) else json.dumps(comment, ensure_ascii=False)
    # Half of a surrogate pair has no place in UTF-8.
    return text[:COMMENT_CHARACTERS_MAX].encode(errors="replace").decode()
