"""Reject words that have a standard term, and sentences that are too long.

Checked are the docs, and every string, comment and name of the code and its tests: docstrings,
help, errors, log messages and the texts of the console. Names count as the words they are made of,
and adjacent literals and comment lines as one text. `make lint` runs `python -m docs.make.wording`.
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

#: In a comment, marks a line in which a word is a name; the reason follows it.
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
#: Most texts have none; this finds out quickly.
_ANY: Final = re.compile("|".join(pattern.pattern for pattern, _ in _PATTERNS), re.IGNORECASE)
#: Python 3.12 gives an f-string as several tokens.
_FSTRING_START, _FSTRING_MIDDLE, _FSTRING_END = (
    getattr(tokenize, f"FSTRING_{part}", -1) for part in ("START", "MIDDLE", "END")
)
#: What readers of a module read.
_READ: Final = {
    tokenize.STRING: "literal",
    _FSTRING_MIDDLE: "literal",
    tokenize.COMMENT: "comment",
    tokenize.NAME: "name",
}
#: What may stand between the parts of one text.
_BETWEEN: Final = {tokenize.NL, tokenize.INDENT, tokenize.DEDENT, _FSTRING_START, _FSTRING_END}
_QUOTES: Final = re.compile(r"""^\w*(\"{3}|'{3}|["'])|(\"{3}|'{3}|["'])$""")
#: Where the words of a name meet: `isReady`, `HTTPServer`.
_CAMEL_CASE: Final = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
#: How a comment begins, by file suffix.
_COMMENTS: Final = {
    **dict.fromkeys([".css", ".js", ".ts", ".tsx"], r"//|/\*|\*"),
    **dict.fromkeys([".html", ".md", ".svg"], r"<!--"),
    ".sql": r"--",
    ".yml": r"#",
}
_LINE_BEGINS: Final = {
    suffix: re.compile(rf"^[ \t]*(?:{mark})", re.MULTILINE) for suffix, mark in _COMMENTS.items()
}
SUFFIXES: Final = {".py", *_COMMENTS}
#: Two literals of TypeScript that are added.
_ADDED_LITERALS: Final = re.compile(r"""["'`]\s*\+\s*["'`]""")
_TAG: Final = re.compile(r"<[^<>]*>")
#: A page that comes from runs, in which words are data.
_GENERATED: Final = {"docs/evidence.md"}
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


def _words(text: str) -> str:
    """Return a text with its names as words, on the same lines."""
    return _CAMEL_CASE.sub(" ", text.replace("\\n", "  ").replace("_", " "))


def rejected_words(text: str) -> Iterator[tuple[int, str]]:
    """Give each rejected word of a text: its line, counted from 0, and what to write instead."""
    words = _words(text)
    for pattern, instead in _PATTERNS if _ANY.search(words) else ():
        for match in pattern.finditer(words):
            line = words.count("\n", 0, match.start())
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


def _passages(source: str) -> Iterator[tuple[list[int], str]]:
    """Give the texts of a module, each with the line of every line of it.

    Adjacent literals are one text, and so are consecutive lines of a comment.
    """
    kind, lines, texts = "", list[int](), list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _BETWEEN or token.string == "+":
            continue
        last, kind = kind, _READ.get(token.type, "")
        if kind != last or kind == "name":
            yield lines, "\n".join(texts)
            lines, texts = [], []
        if kind:
            text = token.string.lstrip("#:") if kind == "comment" else token.string
            texts.append(_QUOTES.sub("", text) if token.type == tokenize.STRING else text)
            first = token.start[0] - 1
            lines += range(first, first + text.count("\n") + 1)
    yield lines, "\n".join(texts)


def check_python(source: str) -> Iterator[tuple[int, str]]:
    """Check the strings, comments and names of a module."""
    for lines, text in _passages(source):
        for line, problem in rejected_words(text):
            yield lines[line], problem


def check_text(text: str, suffix: str) -> Iterator[tuple[int, str]]:
    """Check a file as it is written, and as it reads without the marks of its comments or tags."""
    readings = {text, _without(_ADDED_LITERALS, text), _without(_LINE_BEGINS[suffix], text)}
    if suffix in {".html", ".svg", ".tsx"}:
        readings.add(_without(_TAG, text))
    yield from {each for reading in readings for each in rejected_words(reading)}


def _without(pattern: re.Pattern[str], text: str) -> str:
    """Return a text without what matches, on the same lines."""
    return pattern.sub(lambda match: " " + "\n" * match[0].count("\n"), text)


def exempted_lines(text: str, suffix: str) -> set[int]:
    """Return the lines, counted from 0, with a comment that makes them an exception."""
    if suffix == ".py":
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        comments = (each for each in tokens if each.type == tokenize.COMMENT)
        return {each.start[0] - 1 for each in comments if EXCEPTION in each.string}
    mark = re.compile(rf"(?:{_COMMENTS[suffix]})\s*{EXCEPTION}")
    return {number for number, line in enumerate(text.splitlines()) if mark.search(line)}


def check(path: Path) -> list[Finding]:
    """Check one file, in the way of its kind."""
    text = path.read_text(encoding="utf-8")
    suffix = path.suffix
    found = list(check_python(text) if suffix == ".py" else check_text(text, suffix))
    if suffix == ".md" and not path.is_relative_to(ROOT / "src"):
        found += long_sentences(text)
    exempted = exempted_lines(text, suffix)
    name = path.relative_to(ROOT).as_posix()
    return [
        Finding(name, line + 1, problem) for line, problem in sorted(found) if line not in exempted
    ]


def checked_files() -> list[Path]:
    """Return what users and maintainers read: code, tests, queries, screens and pages."""
    trees = ("src/onceward", "docs", "examples", "bench", "tests", "web/src")
    inside = {path for tree in trees for path in (ROOT / tree).rglob("*")}
    files = sorted(
        path
        for path in {*inside, *ROOT.glob("*"), *(ROOT / "web").glob("*.html")}
        if path.suffix in SUFFIXES and not {"node_modules", "built"} & set(path.parts)
    )
    # This module and its test have to name the words that are rejected.
    unchecked = {*_GENERATED, "docs/make/wording.py", "tests/test_wording.py"}
    return [
        path
        for path in files
        if not any(path.is_relative_to(ROOT / each) for each in unchecked) and path.is_file()
    ]


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
