"""Wording: reject words that have a standard term, and sentences that are too long.

Checked are the docs, and every string, comment and name of the code and its tests: docstrings,
help, errors, log messages and the texts of the console. `make lint` runs
`python -m docs.make.wording`.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from markdown_it import MarkdownIt

ROOT: Final = Path(__file__).parents[2]
SENTENCE_WORDS_MAX: Final = 40

#: Marks a line in which a word is a name; the reason follows it.
EXCEPTION: Final = "wording: "
#: A pattern in lower case, and what to write instead.
REPLACEMENTS: Final = {
    r"somebody|someone|anybody|anyone|nobody|whoever": "the actor: worker, caller, operator",
    r"anew": "again",
    r"told": "reported, shown, logged or notified",
    r"thief|thieves": "the worker taking over",
    r"twins": "concurrent callers with the same key",
    r"house|houses": "architecture, package, store or context",
    r"blotted": "redacted",
    r"harmless to repeat": "idempotent",
    r"in doubt": "ambiguous",
    r"lease (?:runs|ran|has run) out|leases run out": "the lease expires",
    r"only thought through": "dry run",
    r"behind (?:this|that|the|a|its|their|which) (?:position|number)": "after (a position)",
    r"half done": "unfinished",
    r"poisoned message": "poison message",
    r"pays? twice|works? twice": "runs twice",
}
_PATTERNS: Final = [
    (re.compile(rf"\b(?:{pattern})\b".replace(" ", r"\s+"), re.IGNORECASE), instead)
    for pattern, instead in REPLACEMENTS.items()
]
#: Python 3.12 gives the parts of an f-string as tokens.
_FSTRING_MIDDLE: Final = getattr(tokenize, "FSTRING_MIDDLE", -1)
#: What readers of a module read.
_READ: Final = {tokenize.STRING, tokenize.COMMENT, tokenize.NAME, _FSTRING_MIDDLE}
#: Pages that come from runs and tables, in which words are data.
_GENERATED: Final = {"docs/evidence.md", "docs/reference/key-vectors.md"}
_MARKDOWN: Final = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])(?:[\"')*_]*)\s+(?=[\"'(*_`]*[A-Z`\d])")


class Finding(NamedTuple):
    """A text to change."""

    path: str
    line: int
    problem: str

    def __str__(self) -> str:
        """Return it as compilers print errors."""
        return f"{self.path}:{self.line}: {self.problem}"


def rejected_words(text: str) -> Iterator[tuple[int, str]]:
    """Give each rejected word of a text: its line, counted from 0, and what to write instead."""
    for pattern, instead in _PATTERNS:
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start())
            yield line, f'"{" ".join(match[0].split())}": write {instead}'


def long_sentences(markdown: str) -> Iterator[tuple[int, str]]:
    """Give the sentences of a page that have too many words, each with its line, counted from 0."""
    for token in _MARKDOWN.parse(markdown):
        if token.type != "inline" or token.map is None:
            continue
        prose = "".join(
            "CODE" if part.type == "code_inline" else " " if "break" in part.type else part.content
            for part in token.children or ()
        )
        for sentence in _SENTENCE_END.split(prose):
            count = len(sentence.split())
            if count > SENTENCE_WORDS_MAX:
                beginning = " ".join(sentence.split()[:6])
                yield token.map[0], f'{count} words in one sentence: "{beginning} …"'


def check_python(source: str) -> Iterator[tuple[int, str]]:
    """Check the strings, comments and names of a module."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string.replace("_", " ") if token.type == tokenize.NAME else token.string
        if token.type in _READ:
            for line, problem in rejected_words(text):
                yield token.start[0] - 1 + line, problem


def check(path: Path) -> list[Finding]:
    """Check one file, in the way of its kind."""
    text = path.read_text(encoding="utf-8")
    found = list(check_python(text) if path.suffix == ".py" else rejected_words(text))
    if path.suffix == ".md" and not path.is_relative_to(ROOT / "src"):
        found += long_sentences(text)
    lines = text.splitlines()
    found = [each for each in found if EXCEPTION not in lines[each[0]]]
    name = path.relative_to(ROOT).as_posix()
    return [Finding(name, line + 1, problem) for line, problem in sorted(found)]


def checked_files() -> list[Path]:
    """Return what users and maintainers read: code, tests, queries, screens and pages."""
    code = [
        path
        for tree in ("src/onceward", "docs/make", "examples", "bench", "tests", "web/src")
        for suffix in ("*.py", "*.sql", "*.ts", "*.tsx", "*.css", "*.md")
        for path in (ROOT / tree).rglob(suffix)
        if not {"node_modules", "built"} & set(path.parts)
    ]
    pages = [*ROOT.glob("*.md"), *ROOT.glob("*.py"), *(ROOT / "docs").rglob("*.md")]
    # This module and its test have to name the words that are rejected.
    return sorted(
        path
        for path in {*code, *pages}
        if path not in {Path(__file__), ROOT / "tests/test_wording.py"}
        and path.relative_to(ROOT).as_posix() not in _GENERATED
    )


def main(asked: list[str]) -> int:
    """Check all files, or those in the paths asked for; return 1 when a text has to change."""
    below = tuple(Path(each).resolve() for each in asked)
    findings = [
        finding
        for path in checked_files()
        if not below or any(path.is_relative_to(each) for each in below)
        for finding in check(path)
    ]
    for finding in findings:
        print(finding, file=sys.stderr)
    if findings:
        print(f"error: {len(findings)} texts to change", file=sys.stderr)
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
