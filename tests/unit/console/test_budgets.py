"""Budgets: how much a browser fetches before the console can be used. Weighed, not believed."""

import gzip
import json
import re
from importlib import resources
from typing import Any

import pytest

FIRST_SCRIPT_BYTES_MAX = 60_000
STYLE_BYTES_MAX = 15_000
SCREEN_BYTES_MAX = 60_000
LAB_PAGE_BYTES_MAX = 60_000

BUILT = resources.files("onceward.http") / "built"
pytestmark = pytest.mark.skipif(
    not (BUILT / "manifest.json").is_file(), reason="the pages are not built: `make web`"
)


def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((BUILT / "manifest.json").read_text())
    return found


def packed(name: str) -> int:
    return len(gzip.compress((BUILT / "assets" / name).read_bytes(), compresslevel=9, mtime=0))


def named_in_the_page(kind: str, document: str = "index.html") -> list[str]:
    page = (BUILT / document).read_text()
    return sorted(set(re.findall(rf'"/assets/([^"/]+\.{kind})"', page)))


def weight_of(screen: str) -> int:
    weights: dict[str, int] = {
        each["what"]: each["gzipped_bytes"] for each in manifest()["weights"]
    }
    return next(
        weight for what, weight in weights.items() if what.startswith(f"src/screens/{screen}")
    )


def test_the_first_page_and_its_first_screen_fit() -> None:
    """Scripts of the frame and of the overview together are at most 60 kB, packed."""
    scripts = sum(map(packed, named_in_the_page("js")))
    assert scripts > 0
    assert scripts + weight_of("overview") <= FIRST_SCRIPT_BYTES_MAX


def test_all_styles_fit() -> None:
    """Each document has one sheet, and it is at most 15 kB, packed."""
    sheets = set()
    for document in (each.name for each in BUILT.iterdir() if each.name.endswith(".html")):
        (sheet,) = named_in_the_page("css", document)
        assert packed(sheet) <= STYLE_BYTES_MAX, document
        sheets.add(sheet)
    assert {each.name for each in (BUILT / "assets").iterdir() if each.name.endswith(".css")} == (
        sheets
    )


def test_the_memory_page_adds_no_more_than_the_first_load() -> None:
    """The screen with the graph brings at most 60 kB along, packed."""
    assert weight_of("memory") <= SCREEN_BYTES_MAX


@pytest.mark.parametrize("name", ["runs", "results", "review", "compare"])
def test_a_page_of_the_lab_fits(name: str) -> None:
    """Scripts and styles of the document, with those of the screen, are at most 60 kB, packed."""
    document = sum(
        packed(each) for kind in ("js", "css") for each in named_in_the_page(kind, "lab.html")
    )
    what = f"src/lab/screens/{name}.tsx, with all that it needs"
    (weight,) = (each["gzipped_bytes"] for each in manifest()["weights"] if each["what"] == what)
    assert document < weight <= LAB_PAGE_BYTES_MAX


def test_the_manifest_lists_the_sizes_of_the_files() -> None:
    """Every asset is listed, with a size that is its own; nothing else lies there."""
    listed = manifest()["gzipped_bytes"]
    there = {each.name for each in (BUILT / "assets").iterdir()}
    assert there == set(listed)
    for name, size in listed.items():
        assert abs(packed(name) - size) <= 32 + size // 50, name  # Two packers differ a little.
