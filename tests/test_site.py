"""The site that `make docs` builds: every link leads somewhere, here and on GitHub."""

from html import unescape
from pathlib import Path

import pytest

from docs.make import built, links, pages, places

PAGES = links.prose()


def name(path: Path) -> str:
    return str(path.relative_to(links.ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link names a file that exists, and an anchor that one of its headings has."""
    assert list(links.broken(page)) == []


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ("other.md", None),
        ("other.md#two-words", None),
        ("other.md#two-words-1", None),
        ("#here", None),
        ("folder", None),
        ("https://example.com/gone", None),
        ("gone.md", "does not exist"),
        ("other.md#gone", "no heading has this anchor"),
        ("other.md#two-words-2", "no heading has this anchor"),
        ("#gone", "no heading has this anchor"),
        ("folder#here", "no heading has this anchor"),
        ("../outside.md", "is outside the project"),
        ("/other.md", "begins at a root that depends on who shows the page"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(tmp_path: Path, link: str, fault: str | None) -> None:
    """Each kind of broken link is reported by its fault and its line."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "other.md").write_text("# Other\n\n## Two words\n\n## Two `words`\n")
    page = tmp_path / "page.md"
    page.write_text(f"# Here\n\nGo [there]({link}), not `[there](code.md)`.\n")
    expected = [f"page.md:3: {link}: {fault}"] if fault else []
    assert list(links.broken(page, tmp_path)) == expected


@pytest.mark.parametrize(
    ("heading", "slug"),
    [
        ("`onceward status`", "onceward-status"),
        ("Promised, and not", "promised-and-not"),
        ("What *it* costs & why", "what-it-costs--why"),
        ("`$ONCEWARD_HOME`", "onceward_home"),
        ("2. Run it", "2-run-it"),
    ],
)
def test_anchors_are_those_of_github(heading: str, slug: str) -> None:
    """A heading's anchor is its text in lower case, with hyphens and without punctuation."""
    assert pages.parse(f"# {heading}\n").anchors == {slug}


def test_a_new_page_finds_its_place(tmp_path: Path) -> None:
    """A page stands where a word of its name does, else under the heading for the rest."""
    names = ("b-lease", "a-lease", "tables", "unforeseen", "cursor")
    for stem in names:
        (tmp_path / f"{stem}.md").write_text(f"# About {stem}\n")
    section = places.Section(
        folder=str(tmp_path),
        title="Some",
        about="Pages.",
        subjects={"Hold": ("cursor", "lease"), "Else": (), "Look": ("table",)},
    )
    found = places.sorted_by_subject(section)
    assert {subject: [each.stem for each in there] for subject, there in found.items()} == {
        "Hold": ["cursor", "a-lease", "b-lease"],
        "Else": ["unforeseen"],
        "Look": ["tables"],
    }


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('<a href="index.html#top">', None),
        ('<a href="https://example.com">', None),
        ('<a href="gone.html">', "gone.html: does not exist"),
        ('<a href="#gone">', "#gone: nothing there has this anchor"),
        ('<img src="gone.png">', "gone.png: does not exist"),
        ('<script src="//cdn.example/x.js">', "//cdn.example/x.js: is fetched from another host"),
        (
            '<link rel="stylesheet" href="https://fonts.example/x.css">',
            "https://fonts.example/x.css: is fetched from another host",
        ),
    ],
)
def test_a_fault_of_a_built_page_is_found(tmp_path: Path, text: str, fault: str | None) -> None:
    """A built page may link to other hosts, but fetches nothing from them."""
    (tmp_path / "index.html").write_text(f'<h1 id="top">Top</h1>{text}')
    assert list(built.wrong(tmp_path)) == ([f"index.html: {fault}"] if fault else [])


def test_a_stylesheet_that_fetches_from_elsewhere_is_found(tmp_path: Path) -> None:
    """Fonts and imports count, too; data within the file does not."""
    (tmp_path / "x.css").write_text(
        "a { b: url(data:x) url(y.png) } @import 'https://e.example/z';"
    )
    assert list(built.wrong(tmp_path)) == [
        "x.css: https://e.example/z: is fetched from another host"
    ]


@pytest.fixture(scope="module")
def built_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the whole site once; it fails for a warning, a dead link or a request elsewhere."""
    from docs.make import site

    into = tmp_path_factory.mktemp("site")
    site.build(into)
    return into


def test_the_site_holds_every_page(built_site: Path) -> None:
    """A page of the tree is a page of the site, and the index of its section links to it."""
    for page in PAGES:
        if page.is_relative_to(places.DOCS) or page.parent == places.ROOT:
            assert (built_site / places.place(page)).with_suffix(".html").exists(), page
    for section in places.SECTIONS:
        index = (built_site / places.place(places.ROOT / section.folder)).with_suffix(".html")
        for member in places.members(section):
            assert f'href="{Path(places.place(member)).stem}.html"' in index.read_text(), member


def test_a_session_is_copied_without_its_prompts(built_site: Path) -> None:
    """The button beside a session gives what a reader types, and not what the program answers."""
    page = (built_site / "tutorial" / "first-ten-minutes.html").read_text()
    copied = [unescape(each.split('"')[0]) for each in page.split('data-copy="')[1:]]
    assert [
        "onceward journal poll notes.jsonl --limit 2",
        "onceward journal poll notes.jsonl --since 37",
        "onceward journal poll notes.jsonl --since 48",
    ] in [each.splitlines() for each in copied]


def test_search_needs_no_server(built_site: Path) -> None:
    """The index is there as a script, because a page on disk may not read another file."""
    assert "lease" in (built_site / "search" / "search_index.js").read_text()
    assert 'src="assets/iframe-worker.js"' in (built_site / "index.html").read_text()
