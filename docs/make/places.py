"""Map every file to its page of the site, and make the navigation.

A page finds its place by the folder it is in and the words in its file name. Nothing lists pages,
so a new one needs no registration.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from docs.make import links, pages

ROOT: Final = links.ROOT
DOCS: Final = ROOT / "docs"
#: Files that a browser shows by itself; any other that is not Markdown gets a page around it.
AS_THEY_ARE: Final = frozenset([".gif", ".jpg", ".json", ".png", ".svg", ".webp"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A folder of pages, as the navigation shows it."""

    folder: str
    title: str
    about: str
    #: Headings, and words in file names that belong under them; the first that fits is taken, the
    #: one without words takes the rest. Pages stand in the order of their words, then by title.
    subjects: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"": ()})


SECTIONS: Final = (
    Section(
        folder="docs/tutorial",
        title="Tutorial",
        about="Ten minutes each, from nothing to something that survived. Begin with the first.",
        subjects={"": ("first", "worker", "lab", "orchestrator", "memory", "dispatch")},
    ),
    Section(
        folder="docs/how-to",
        title="How-to",
        about="One task each: when you need it, what to do, what to check.",
        subjects={
            "Begin": ("install", "minute", "console"),
            "Once and onward": ("once", "http", "cursor", "journal", "crashes"),
            "Workers": ("source", "handlers", "workers"),
            "Experiment Lab": ("judge",),
            "Orchestrator": ("an-agent", "coding-agent", "a-run"),
            "Memory": ("memory", "secrets"),
            "Dispatch": ("chat", "channel", "answer"),
            "Operate": (),
        },
    ),
    Section(
        folder="docs/explanation",
        title="Explanation",
        about="Why things are as they are.",
        subjects={
            "Ideas": (
                "delivery",
                "keys",
                "outcomes",
                "cursors-and-queues",
                "cursors",
                "fencing-tokens",
                "journal",
                "dual-cursor",
                "retries",
            ),
            "Systems": ("workers", "lab", "orchestrator", "memory", "dispatch", "console"),
            "The whole": ("files", "scaling", "proof", "decisions"),
            "More": (),
        },
    ),
    Section(
        folder="docs/reference",
        title="Reference",
        about="Everything there is, made from the code: a test fails when something is missing.",
        subjects={"": ("glossary", "cli"), " ": ()},
    ),
)
EXAMPLES: Final = Section(
    folder="examples",
    title="Examples",
    about="Small programs as a user would write them. The tests run each of them.",
)
#: Pages beside the sections, in this order; another page in `docs/` comes after them.
BESIDE: Final = ("GUARANTEES.md", "docs/evidence.md", "docs/benchmarks.md")
CHANGES: Final = "CHANGELOG.md"
PROJECT: Final = ("CONTRIBUTING.md", "SECURITY.md", "LICENSE")


def place(path: Path) -> str:
    """Return where a file or folder of the tree stands in the site, as MkDocs names sources."""
    inside = path.relative_to(DOCS) if path.is_relative_to(DOCS) else path.relative_to(ROOT)
    at_root = path.parent == ROOT
    if path.is_dir():
        has_index = path.parent == DOCS or at_root
        return f"{inside}/index.md" if has_index else f"{inside}.md"
    if at_root and path.name == "README.md":
        return "index.md"
    if path.suffix == ".md" and (at_root or path.is_relative_to(DOCS)):
        return str(inside).lower() if at_root else str(inside)
    return str(inside) if path.suffix in AS_THEY_ARE else f"{inside}.md"


def beside_docs() -> list[Path]:
    """Return the files and folders outside `docs/` that the site holds, too."""
    named = [ROOT / name for name in (*BESIDE, CHANGES, *PROJECT)]
    found = {each for each in named if each.exists()}
    found.update(members(EXAMPLES))
    for page in links.prose():
        if page.is_relative_to(DOCS) or page in found:
            found.update(filter(None, (links.target_of(page, to.target) for to in _links(page))))
    found -= {ROOT, ROOT / "README.md", ROOT / EXAMPLES.folder}
    return sorted(each for each in found if each.exists() and not each.is_relative_to(DOCS))


def _links(page: Path) -> tuple[pages.Link, ...]:
    return pages.read(page).links


def members(section: Section) -> list[Path]:
    """Return what a section holds, folders with something to show included."""
    folder = ROOT / section.folder
    return sorted(
        each
        for each in folder.iterdir()
        if each.suffix in (".md", ".py", ".sql", "") and each.name != "__pycache__"
    )


def sorted_by_subject(section: Section) -> dict[str, list[Path]]:
    """Return a section's members under their headings, in the order that readers meet them."""
    found: dict[str, list[tuple[int, str, Path]]] = defaultdict(list)
    for member in members(section):
        subject, at = _subject(section, member.stem)
        found[subject].append((at, title(member).lower(), member))
    return {
        subject: [member for *_, member in sorted(found[subject])]
        for subject in section.subjects
        if found[subject]
    }


def _subject(section: Section, stem: str) -> tuple[str, int]:
    rest = ""
    for subject, words in section.subjects.items():
        if not words:
            rest = subject
        for at, word in enumerate(words):
            if word in stem:
                return subject, at
    return rest, 0


def title(path: Path) -> str:
    """Return what a page is called in the navigation."""
    return pages.read(path).title if path.suffix == ".md" else path.name


def navigation() -> list[Any]:
    """Return the navigation as MkDocs takes it; pages are named by their own headings."""
    beside = [ROOT / name for name in BESIDE]
    others = [page for page in sorted(DOCS.glob("*.md")) if page not in beside]
    return [
        {"Start": "index.md"},
        *({section.title: list(_entries(section))} for section in SECTIONS),
        *(place(page) for page in (*beside, *others) if page.exists() and page.stem != "index"),
        place(ROOT / CHANGES),
        {
            "Project": [
                *(place(ROOT / name) for name in PROJECT),
                {EXAMPLES.title: list(_entries(EXAMPLES))},
            ]
        },
    ]


def _entries(section: Section) -> Iterator[Any]:
    yield place(ROOT / section.folder)
    for subject, found in sorted_by_subject(section).items():
        placed = [place(member) for member in found]
        if subject.strip():
            yield {subject: placed}
        else:
            yield from placed
