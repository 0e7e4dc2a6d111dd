"""Issues: a problem that a command reported, and the distinct issues of its output.

Strips control characters and limits the length of messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from onceward.errors import InvalidArgument
from onceward.keys.stable import error_key, warning_key

ISSUES_MAX: Final = 50
MESSAGE_CHARACTERS_MAX: Final = 300
CONTEXT_CHARACTERS_MAX: Final = 200
_RECENT_MAX: Final = 1_000

#: Terminal escape sequences, and control characters except white space.
_ESCAPES: Final = re.compile(
    r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b]*+(?:\x07|\x1b\\)|[()][0-9A-Za-z]|[^\x1b])"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_LETTER: Final = re.compile(r"[^\W\d_]")
#: Lines that only summarise earlier ones.
_SUMMARY: Final = re.compile(
    r"(?:aborting due to|could not compile|ld returned|build failed|usage: "
    r"|.{0,80}\bgenerated \d+ warning|\d+ (?:errors?|warnings?)\b"
    r"|To see the full stack trace|Re-run Maven|-> \[Help)",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Issue:
    """A problem that a command reported."""

    is_warning: bool
    #: The message, in one line; its normalised form is the issue's key.
    message: str
    #: The kind, such as `ModuleNotFoundError`, `TS2304` or `warning`.
    kind: str
    #: The name of the detector.
    detector: str
    #: The test, or the file and line; empty if unknown.
    context: str = ""

    @property
    def key(self) -> str:
        """Return the stable name, `err#…` or `warn#…`."""
        return (warning_key if self.is_warning else error_key)(self.message)


class Findings:
    """The distinct issues found so far, by key."""

    def __init__(self) -> None:
        """Start empty."""
        self.errors: dict[str, Issue] = {}
        self.warnings: dict[str, Issue] = {}
        #: Raw messages, so that a repeated one is not normalised every time.
        self._seen = _RecentMessages()
        self._last: tuple[dict[str, Issue], str] | None = None

    def add(self, issue: Issue) -> None:
        """Add an issue, unless it is a duplicate, has no content or exceeds the limit."""
        place = self.warnings if issue.is_warning else self.errors
        if len(place) >= ISSUES_MAX or (issue.is_warning, issue.message) in self._seen:
            return
        self._seen.add((issue.is_warning, issue.message))
        message = " ".join(issue.message.split())
        if not _LETTER.search(message) or _SUMMARY.match(message):
            return
        kept = replace(
            issue,
            message=_cut(message, MESSAGE_CHARACTERS_MAX),
            context=_line(issue.context),
        )
        try:
            key = kept.key
        except InvalidArgument:
            return  # Only a path or a hash, which cannot be a name.
        if key not in place:
            place[key] = kept
            self._last = (place, key)

    def locate(self, context: str) -> None:
        """Set the location of the last issue, if it has none."""
        if self._last is not None:
            place, key = self._last
            place[key] = replace(place[key], context=place[key].context or _line(context))
            self._last = None

    def has(self, message: str) -> bool:
        """Return whether this error was found."""
        return error_key(message) in self.errors


class _RecentMessages:
    """A set of roughly the last `_RECENT_MAX` messages."""

    def __init__(self) -> None:
        self._new: set[tuple[bool, str]] = set()
        self._old: set[tuple[bool, str]] = set()

    def __contains__(self, message: tuple[bool, str]) -> bool:
        return message in self._new or message in self._old

    def add(self, message: tuple[bool, str]) -> None:
        if len(self._new) >= _RECENT_MAX:
            self._new, self._old = set(), self._new
        self._new.add(message)


def _line(context: str) -> str:
    return _cut(" ".join(context.split()), CONTEXT_CHARACTERS_MAX)


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1].rstrip()}…"


def strip_control_characters(text: str) -> str:
    """Return the text without terminal escape sequences and control characters."""
    # A progress bar overwrites its line; each state becomes a line of its own.
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in lines:
        lines = _ESCAPES.sub("", lines)
    return _CONTROLS.sub("", lines).encode(errors="replace").decode()
