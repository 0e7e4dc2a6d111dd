"""Count lines of code and comments, files and queries, by tree and by package.

A line of code holds a token other than comments and docstrings; a line of comment holds nothing
else. `make weight` runs `python -m docs.make.weight`; with `--json` it prints an object.
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from docs.make.source import parse

ROOT: Final = Path(__file__).parents[2]
#: By name: where the files are, and how they end.
TREES: Final = {
    "src": ("src/", (".py",)),
    "src pages": ("src/", (".js", ".css", ".html")),
    "tests": ("tests/", (".py",)),
    "web": ("web/", (".ts", ".tsx", ".mjs", ".css", ".html")),
    "bench": ("bench/", (".py",)),
    "docs": ("docs/", (".py",)),
    "SQL": ("src/", (".sql",)),
}
LARGEST: Final = 12
#: Tokens that are no code: what separates lines, and comments.
_LAYOUT: Final = {
    tokenize.ENCODING,
    tokenize.NEWLINE,
    tokenize.NL,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
#: Comments of the languages that are not Python. A string comes first: it may hold what looks
#: like a comment.
_SCRIPT: Final = re.compile(
    r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)|(/\*.*?\*/|//[^\n]*)""",
    re.DOTALL,
)
_STYLES: Final = re.compile(r"()(/\*.*?\*/)", re.DOTALL)
_MARKUP: Final = re.compile(r"()(<!--.*?-->)", re.DOTALL)
_SQL: Final = re.compile(r"('[^']*')|(--[^\n]*)")
_COMMENTS: Final = {".css": _STYLES, ".html": _MARKUP, ".sql": _SQL}


@dataclass(frozen=True, kw_only=True, slots=True)
class Weight:
    """The lines of one or several files."""

    files: int = 0
    code: int = 0
    comments: int = 0
    lines: int = 0

    def __add__(self, other: Weight) -> Weight:
        """Return both together."""
        return Weight(
            files=self.files + other.files,
            code=self.code + other.code,
            comments=self.comments + other.comments,
            lines=self.lines + other.lines,
        )

    @property
    def share(self) -> float:
        """Return the share of comments in what is not blank."""
        return self.comments / max(self.code + self.comments, 1)

    def to_dict(self) -> dict[str, float]:
        """Return the counts by name."""
        share = round(self.share, 4)
        counts = {"files": self.files, "code": self.code, "comments": self.comments}
        return {**counts, "lines": self.lines, "comment_share": share}


def _rows(first: int, last: int) -> set[int]:
    return set(range(first, last + 1))


def weigh_python(text: str) -> Weight:
    """Weigh a module by its tokens."""
    documented: set[int] = set()
    for node in ast.walk(parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and ast.get_docstring(node, clean=False) is not None:
                documented |= _rows(first.lineno, first.end_lineno or first.lineno)
    code: set[int] = set()
    remarks = set(documented)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            remarks.add(token.start[0])
        elif token.type not in _LAYOUT and token.start[0] not in documented:
            code |= _rows(token.start[0], token.end[0])
    lines = text.count("\n")
    return Weight(files=1, code=len(code), comments=len(remarks - code), lines=lines)


def weigh_text(text: str, suffix: str) -> Weight:
    """Weigh a file of another language by what is left without its comments."""

    def blanked(match: re.Match[str]) -> str:
        return match[0] if match[1] else re.sub(r"[^\n]", "", match[0])

    left = _COMMENTS.get(suffix, _SCRIPT).sub(blanked, text)
    filled = sum(bool(line.strip()) for line in text.splitlines())
    code = sum(bool(line.strip()) for line in left.splitlines())
    return Weight(files=1, code=code, comments=filled - code, lines=text.count("\n"))


def weigh(path: Path) -> Weight:
    """Weigh one file."""
    text = path.read_text(encoding="utf-8")
    return weigh_python(text) if path.suffix == ".py" else weigh_text(text, path.suffix)


def total(weights: Iterable[Weight]) -> Weight:
    """Return all together."""
    return sum(weights, Weight())


def tracked() -> list[str]:
    """Return the files of this project that are there: tracked, or new and not ignored."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(  # noqa: S603 - a fixed command line
        command, cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = set(listed.stdout.split("\0"))
    return sorted(name for name in names if name and (ROOT / name).is_file())


def by_tree(names: Iterable[str]) -> dict[str, dict[str, Weight]]:
    """Weigh the files of each tree."""
    found: dict[str, dict[str, Weight]] = {tree: {} for tree in TREES}
    for name in names:
        for tree, (start, suffixes) in TREES.items():
            if name.startswith(start) and name.endswith(suffixes):
                found[tree][name] = weigh(ROOT / name)
    return found


def by_package(files: dict[str, Weight], depth: int) -> list[tuple[str, Weight]]:
    """Join the files of a package, which is this deep in the tree; the heaviest first."""
    found: dict[str, Weight] = {}
    for name, weight in files.items():
        package = "/".join(Path(name).parts[:depth])
        found[package] = found.get(package, Weight()) + weight
    return sorted(found.items(), key=lambda each: (-each[1].code, each[0]))


def main(words: list[str]) -> int:
    """Print the weight of each tree and of the heaviest packages."""
    trees = by_tree(tracked())
    packages = by_package(trees["src"], 3)[:LARGEST] + by_package(trees["tests"], 2)[:LARGEST]
    if words == ["--json"]:
        whole = {tree: total(files.values()).to_dict() for tree, files in trees.items()}
        parts = {name: weight.to_dict() for name, weight in packages}
        print(json.dumps({"trees": whole, "packages": parts}, indent=1))
        return 0
    if words:
        print("error: unknown words; fix: pass nothing, or --json", file=sys.stderr)
        return 2
    print(f"{'':28}{'files':>7}{'code':>9}{'comments':>10}{'share':>7}{'lines':>9}")
    for name, weight in [(tree, total(trees[tree].values())) for tree in trees] + packages:
        counts = f"{weight.files:>7,}{weight.code:>9,}{weight.comments:>10,}"
        print(f"{name:28}{counts}{weight.share:>7.1%}{weight.lines:>9,}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
