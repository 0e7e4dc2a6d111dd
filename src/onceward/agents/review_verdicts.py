"""Review verdicts: parse a reviewer's verdict from its exit code or its output.

Three forms: `json`, `exit` and `text`. The caller maps a verdict to an event.
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
#: Allowed verdicts by type of agent.
VERDICTS: Final[Mapping[str, tuple[str, ...]]] = {
    "reviewer": ("approved", "changes_requested"),
    "spec_maintainer": ("updated", "no_changes_needed", "changes_requested"),
}
#: Only the end of the output is searched.
SEARCHED_CHARACTERS_MAX: Final = 256 * 1024
#: Maximum number of `{` tried as the start of a JSON object: code has many that are not.
ATTEMPTS_MAX: Final = 2000
COMMENTS_MAX: Final = 100
COMMENTS_BYTES_MAX: Final = 32 * 1024
COMMENT_CHARACTERS_MAX: Final = 2000
#: Number of output lines used as the comment if the program gives none.
TAIL_LINES: Final = 40

#: With a choice of words, or a question mark, it is no verdict.
_VERDICT_LINE: Final = re.compile(
    r"^[\s*#>`_]*VERDICT[\s*`_]*:[\s*`_]*([A-Za-z_ -]+(?:[|/?].*)?)", re.MULTILINE
)
#: Fields under which coding tools that print JSON put the text of the model.
_ENVELOPES: Final = ("result", "response", "text", "content", "message", "output")
_ENVELOPE_DEPTH_MAX: Final = 3


class NoVerdict(OncewardError):
    """The program exited without a readable verdict; a retry may give one."""

    code = "NO_VERDICT"
    retryable = True


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewVerdict:
    """A verdict with comments."""

    #: One of the verdicts of the agent's type.
    status: str
    #: Texts, or objects such as `{"path": …, "line": …, "comment": …}`.
    comments: tuple[Any, ...] = ()


def verdict_instruction(form: str, agent_type: str) -> str:
    """Return the prompt's instruction how to give the verdict."""
    words = VERDICTS[agent_type]
    if form == "json":
        choices = " | ".join(f'"{word}"' for word in words)
        return f'End your answer with one JSON object: {{"verdict": {choices}, "comments": ["…"]}}'
    if form == "text":
        return f"End your answer with one line: VERDICT: {' | '.join(words)}"
    return ""


def read_verdict(
    form: str, agent_type: str, *, exit_code: int, output: str, has_changed: bool
) -> ReviewVerdict:
    """Return the verdict; raise NoVerdict if there is none.

    `has_changed`: whether the program changed files. It turns a plain approval of a spec maintainer
    into *updated* or *no changes needed*.
    """
    if form == "exit":
        return _of_exit(agent_type, exit_code, output, has_changed=has_changed)
    read = _of_json if form == "json" else _of_text
    word, comments = read(output[-SEARCHED_CHARACTERS_MAX:])
    status = _status(word, agent_type, has_changed=has_changed)
    if status is None:
        message = f"{word[:100]!r} is not a verdict of a {agent_type}"
        raise NoVerdict(message, fix=f"print one of {', '.join(VERDICTS[agent_type])}")
    if status == "changes_requested" and not comments:
        comments = tail(output)
    return ReviewVerdict(status=status, comments=tuple(_bounded(comments)))


def tail(output: str) -> list[str]:
    """Return the last lines as one comment; an empty list if there is no output."""
    text = "\n".join(output.strip().splitlines()[-TAIL_LINES:])
    return [text[-COMMENT_CHARACTERS_MAX:]] if text else []


def _of_exit(agent_type: str, exit_code: int, output: str, *, has_changed: bool) -> ReviewVerdict:
    if exit_code == 0:
        status = _status("approved", agent_type, has_changed=has_changed)
        assert status is not None, agent_type
        return ReviewVerdict(status=status)
    assert exit_code == 1, exit_code
    return ReviewVerdict(status="changes_requested", comments=tuple(tail(output)))


def _status(word: object, agent_type: str, *, has_changed: bool) -> str | None:
    if not isinstance(word, str):
        return None
    verdict = re.sub(r"[\s-]+", "_", word.strip().lower()).strip("_")
    if verdict in VERDICTS[agent_type]:
        return verdict
    if agent_type == "spec_maintainer" and verdict == "approved":
        return "updated" if has_changed else "no_changes_needed"
    return None


def _of_text(output: str) -> tuple[str, Sequence[Any]]:
    found = _VERDICT_LINE.findall(output)
    if not found:
        raise NoVerdict(fix="print a line such as `VERDICT: approved`")
    return found[-1], ()


def _of_json(output: str) -> tuple[str, Sequence[Any]]:
    judged = list(_verdict_objects(output, _ENVELOPE_DEPTH_MAX))
    if not judged:
        raise NoVerdict(fix='print a JSON object such as {"verdict": "approved"} at the end')
    # Tools that print JSON have a `status` field of their own, which is not a verdict.
    meant = [each for each in judged if _is_known(_verdict_word(each))] or judged
    comments = meant[-1].get("comments") or []
    return _verdict_word(meant[-1]), comments if isinstance(comments, list) else [comments]


def _verdict_word(judged: Mapping[str, Any]) -> str:
    word = judged.get("verdict")
    return word if isinstance(word, str) else str(judged["status"])


def _is_known(word: str) -> bool:
    return any(_status(word, each, has_changed=False) for each in VERDICTS)


def _verdict_objects(text: str, depth: int) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects with a verdict in a text, in order, also inside envelopes."""
    for found in _objects(text):
        if isinstance(found.get("verdict"), str) or isinstance(found.get("status"), str):
            yield found
        for name in _ENVELOPES if depth else ():
            inner = found.get(name)
            if isinstance(inner, str):
                yield from _verdict_objects(inner, depth - 1)
            elif isinstance(inner, dict):
                yield from _verdict_objects(json.dumps(inner), depth - 1)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    decoder, position = json.JSONDecoder(), 0
    for _ in range(ATTEMPTS_MAX):
        position = text.find("{", position)
        if position < 0:
            return
        try:
            found, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
            continue
        yield found


def _bounded(comments: Sequence[Any]) -> Iterator[Any]:
    """Limit the comments to what a message can hold; they become part of the next key."""
    bytes_left = COMMENTS_BYTES_MAX
    for each in comments[:COMMENTS_MAX]:
        kept = _plain(each)
        bytes_left -= len(canonical_json(kept))
        if bytes_left < 0:
            return
        yield kept


def _plain(comment: Any) -> Any:  # noqa: ANN401 - any JSON value
    with suppress(NotCanonical, RecursionError):
        if not isinstance(comment, str) and len(canonical_json(comment)) <= COMMENT_CHARACTERS_MAX:
            return comment
    text = comment if isinstance(comment, str) else json.dumps(comment, ensure_ascii=False)
    # A lone surrogate cannot be encoded as UTF-8.
    return text[:COMMENT_CHARACTERS_MAX].encode(errors="replace").decode()
