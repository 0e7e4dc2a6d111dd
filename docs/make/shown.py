"""Make the site's pages that no file holds: the index of a section, and a program's source."""

import ast
import re
from pathlib import Path
from typing import Final

from docs.make import pages
from docs.make.places import DOCS, ROOT, Section, sorted_by_subject, title
from docs.make.source import parse

#: Longer than any run of backticks in what is shown.
_FENCE: Final = "`" * 6
_LANGUAGES: Final = {
    ".ini": "ini",
    ".json": "json",
    ".md": "markdown",
    ".py": "python",
    ".sh": "bash",
    ".sql": "sql",
    ".toml": "toml",
}
_MARKUP: Final = re.compile(r"([\\`*_\[\]#|])")


def index(section: Section) -> str:
    """Return a section's first page: all that it holds, each with what it begins with."""
    lines = [f"# {section.title}", "", section.about, ""]
    for subject, found in sorted_by_subject(section).items():
        lines += [f"## {subject}", ""] if subject.strip() else []
        lines += [_entry(member) for member in found]
        lines.append("")
    return "\n".join(lines)


def _entry(member: Path) -> str:
    # A link as GitHub has it: it is rewritten with those of the pages that people wrote.
    said = _MARKUP.sub(r"\\\1", _about(member)).replace("<", "&lt;")
    return f"- [{title(member)}]({member.name})" + (f"<br>{said}" if said else "")


def source(path: Path) -> str:
    """Return a page that shows a file, or all files of a folder."""
    lines = [f"# {path.name}", ""]
    for file in _files(path):
        name = file.relative_to(DOCS if file.is_relative_to(DOCS) else ROOT)
        language = _LANGUAGES.get(file.suffix, "text")
        lines += [f'{_FENCE}{language} title="{name}"', _text(file).rstrip(), _FENCE, ""]
    return "\n".join(lines)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    inside = (file for file in path.rglob("*") if file.is_file())
    hidden = (".", "__pycache__")
    return sorted(
        file
        for file in inside
        if not any(part.startswith(hidden) for part in file.relative_to(path).parts)
    )


def _about(path: Path) -> str:
    if path.suffix == ".md":
        return pages.read(path).summary
    if path.is_dir():
        return ", ".join(str(file.relative_to(path)) for file in _files(path))
    said = ast.get_docstring(parse(_text(path))) if path.suffix == ".py" else None
    return (said or "").split("\n\n")[0].replace("\n", " ")


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")
