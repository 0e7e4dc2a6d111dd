"""Error patterns: regular expressions for single-line errors and warnings, by program.

Patterns are tried in order, and the first match wins. Each is anchored and free of ambiguous
repetition, so matching takes linear time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

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
