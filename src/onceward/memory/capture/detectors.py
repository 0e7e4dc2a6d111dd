"""Detectors: how errors and warnings look in one line of output, a row for each kind of program.

Every pattern is tried once a line, in this order, and the first that fits counts. Each is pinned to
a place and repeats nothing that could be repeated in two ways, so that no line takes long.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_LEVEL: Final = r"(?P<level>fatal error|error|warning)"


@dataclass(frozen=True, slots=True)
class Row:
    """One way in which a program says that something is wrong.

    Groups of the pattern: `message`, and where it has them `level` (which begins with `warn` for a
    warning), `kind`, and `lead`, which stands before the message.
    """

    #: The name of the detector; kept with the issue.
    name: str
    pattern: re.Pattern[str]
    #: What it is, where the pattern has no such group.
    kind: str = "error"
    is_warning: bool = False
    #: Whether the message stands in the next line.
    is_continued: bool = False


def _row(name: str, pattern: str, kind: str = "error", **flags: bool) -> Row:
    return Row(name, re.compile(pattern), kind, **flags)


ROWS: Final = (
    _row("rustc", rf"{_LEVEL}\[(?P<kind>[A-Za-z]+\d+)\]: (?P<message>.+)"),
    _row("rust", r"thread '[^']*' panicked at [^':\s][^:]*:\d+:\d+:$", "panic", is_continued=True),
    _row("rust", r"thread '[^']*' panicked at '(?P<message>.+)', [^',\s]+$", "panic"),
    # The place of these stands before, and may hold anything.
    _row("tsc", rf".*?[:)\d] (?:- )?{_LEVEL} (?P<kind>TS\d+): (?P<message>.+)"),
    _row("compiler", rf".*?\)\s?: {_LEVEL} (?P<kind>[A-Z]+\d+): (?P<message>.+)"),
    _row("compiler", rf".*?:\d+: {_LEVEL}: (?P<message>.+)"),
    _row("linter", r"[^\s:]+:\d+:\d+: (?P<kind>[A-Z]+\d+)(?: \[\*\])? (?P<message>.+)"),
    _row(
        "python",
        r".*?:\d+: (?P<message>(?P<kind>[A-Za-z_][\w.]*Warning): .+)",
        is_warning=True,
    ),
    _row("npm", r"npm (?P<level>warn|WARN) (?P<message>.+)", "warning"),
    _row("go", r"[^\s:]+\.go:\d+:\d+: (?P<message>.+)", "compile"),
    _row("go", r"panic: (?P<message>.+)", "panic"),
    _row("go", r"\s*--- FAIL: (?P<lead>\S+)", "test", is_continued=True),
    _row("jest", r"\s*● (?P<lead>\S.*)", "test", is_continued=True),
    _row(
        "java",
        r"(?:Exception in thread \"[^\"]*\" |Caused by: )?"
        r"(?P<message>(?P<kind>(?:[a-z_][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error|Throwable))"
        r"(?:: .*)?)$",
    ),
    _row(
        "exception",
        r"(?:Uncaught (?:exception: )?)?"
        r"(?P<message>(?P<kind>[A-Z]\w*(?:Error|Exception)|Error)(?: \[\w+\])?: .+)",
    ),
    _row(
        "php", r"PHP (?P<level>Fatal error|Parse error|Warning|Notice|Deprecated): (?P<message>.+)"
    ),
    _row("make", r"g?make(?:\[\d+\])?: \*\*\* (?!\[)(?P<message>.+)"),
    _row(
        "shell",
        r"(?:\S{1,60}: )?(?:(?:line )?\d{1,6}: )?(?P<message>[^\s:]+: (?:command )?not found)$",
        "CommandNotFound",
    ),
    _row(
        "system",
        r"[\w./+-]{1,60}: (?P<message>.+: (?:No such file or directory|Permission denied"
        r"|Connection refused|No space left on device))$",
    ),
    _row(
        "generic",
        r"(?:[\w./@+ -]{1,60}: )?(?P<level>(?i:fatal error|fatal|error|warning|warn))"
        r"(?:\[[^\]]{1,40}\])?:\s*(?P<message>\S.*)",
    ),
    _row("generic", r"\[(?P<level>ERROR|FATAL|CRITICAL|WARNING|WARN)\]:?\s+(?P<message>\S.*)"),
)

#: A line without any of these is none of the above; most lines of most programs are such.
HINT: Final = re.compile(
    r"[Ee][Rr][Rr](?:[Oo][Rr]|!)|[Ww][Aa][Rr][Nn]|FAIL|[Ff][Aa][Tt][Aa][Ll]|CRITICAL|panic"
    r"|Exception|Throwable|Notice|Deprecated|● |not found|\*\*\*|No such|No space|denied|refused"
    r"|\.go:\d|:\d+:\d+: [A-Z]+\d"
)
