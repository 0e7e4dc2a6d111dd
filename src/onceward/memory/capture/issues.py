"""Issues: a problem that a command reported, the distinct issues of its output, and patterns.

Strips control characters and limits the length of messages. Patterns are tried in order, and the
first match wins. Each is anchored and free of ambiguous repetition, so matching takes linear time.
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


# --- patterns of single-line messages -------------------------------------------------------------

_LEVEL: Final = r"(?P<level>fatal error|error|warning)"


@dataclass(frozen=True, slots=True)
class ErrorPattern:
    """A pattern for one form of error message.

    Groups: `message`, and optionally `level` (begins with `warn` for a warning), `kind`, and
    `lead`, the text before the message.
    """

    #: The detector's name, stored with the issue.
    name: str
    pattern: re.Pattern[str]
    #: The kind, if the pattern has no such group.
    kind: str = "error"
    is_warning: bool = False
    #: Whether the message is on the next line.
    message_on_next_line: bool = False


def _pattern(name: str, pattern: str, kind: str = "error", **flags: bool) -> ErrorPattern:
    return ErrorPattern(name, re.compile(pattern), kind, **flags)


ERROR_PATTERNS: Final = (
    _pattern("rustc", rf"{_LEVEL}\[(?P<kind>[A-Za-z]+\d+)\]: (?P<message>.+)"),
    _pattern(
        "rust",
        r"thread '[^']*' panicked at [^':\s][^:]*:\d+:\d+:$",
        "panic",
        message_on_next_line=True,
    ),
    _pattern("rust", r"thread '[^']*' panicked at '(?P<message>.+)', [^',\s]+$", "panic"),
    # These begin with the location, which may be any text.
    _pattern("tsc", rf".*?[:)\d] (?:- )?{_LEVEL} (?P<kind>TS\d+): (?P<message>.+)"),
    _pattern("compiler", rf".*?\)\s?: {_LEVEL} (?P<kind>[A-Z]+\d+): (?P<message>.+)"),
    _pattern("compiler", rf".*?:\d+: {_LEVEL}: (?P<message>.+)"),
    _pattern("linter", r"[^\s:]+:\d+:\d+: (?P<kind>[A-Z]+\d+)(?: \[\*\])? (?P<message>.+)"),
    _pattern(
        "python",
        r".*?:\d+: (?P<message>(?P<kind>[A-Za-z_][\w.]*Warning): .+)",
        is_warning=True,
    ),
    _pattern("npm", r"npm (?P<level>warn|WARN) (?P<message>.+)", "warning"),
    _pattern("go", r"[^\s:]+\.go:\d+:\d+: (?P<message>.+)", "compile"),
    _pattern("go", r"panic: (?P<message>.+)", "panic"),
    _pattern("go", r"\s*--- FAIL: (?P<lead>\S+)", "test", message_on_next_line=True),
    _pattern("jest", r"\s*● (?P<lead>\S.*)", "test", message_on_next_line=True),
    _pattern(
        "java",
        r"(?:Exception in thread \"[^\"]*\" |Caused by: )?"
        r"(?P<message>(?P<kind>(?:[a-z_][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error|Throwable))"
        r"(?:: .*)?)$",
    ),
    _pattern(
        "exception",
        r"(?:Uncaught (?:exception: )?)?"
        r"(?P<message>(?P<kind>[A-Z]\w*(?:Error|Exception)|Error)(?: \[\w+\])?: .+)",
    ),
    _pattern(
        "php", r"PHP (?P<level>Fatal error|Parse error|Warning|Notice|Deprecated): (?P<message>.+)"
    ),
    _pattern("make", r"g?make(?:\[\d+\])?: \*\*\* (?!\[)(?P<message>.+)"),
    _pattern(
        "shell",
        r"(?:\S{1,60}: )?(?:(?:line )?\d{1,6}: )?(?P<message>[^\s:]+: (?:command )?not found)$",
        "CommandNotFound",
    ),
    _pattern(
        "system",
        r"[\w./+-]{1,60}: (?P<message>.+: (?:No such file or directory|Permission denied"
        r"|Connection refused|No space left on device))$",
    ),
    _pattern(
        "generic",
        r"(?:[\w./@+ -]{1,60}: )?(?P<level>(?i:fatal error|fatal|error|warning|warn))"
        r"(?:\[[^\]]{1,40}\])?:\s*(?P<message>\S.*)",
    ),
    _pattern("generic", r"\[(?P<level>ERROR|FATAL|CRITICAL|WARNING|WARN)\]:?\s+(?P<message>\S.*)"),
)

#: Every pattern requires one of these; this rejects most lines quickly.
ERROR_HINT: Final = re.compile(
    r"[Ee][Rr][Rr](?:[Oo][Rr]|!)|[Ww][Aa][Rr][Nn]|FAIL|[Ff][Aa][Tt][Aa][Ll]|CRITICAL|panic"
    r"|Exception|Throwable|Notice|Deprecated|● |not found|\*\*\*|No such|No space|denied|refused"
    r"|\.go:\d|:\d+:\d+: [A-Z]+\d"
)
