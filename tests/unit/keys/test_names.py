"""Canonical names: spellings that mean the same come out the same, and stay so."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward import keys
from onceward.keys.names import canonical_name, concept_slug, dependency_name, file_path

SPELLINGS = {
    "concept#rate-limiting": [
        "concept#rate-limiting",
        "concept#Rate Limiting",
        "concept#rate_limiting",
        "concept# RATE  --  limiting ",
        "concept#\uff32ate limiting",
    ],
    "concept#größe": ["concept#Größe", "concept#gro\u0308ße", "concept#GRÖßE"],
    "concept#हिन्दी-शब्द": ["concept#हिन्दी शब्द"],
    "concept#🚀": ["concept#🚀", "concept# 🚀 "],
    "concept#c-": ["concept#C++", "concept#c#"],
    "file#src/app.py": [
        "file#src/app.py",
        "file#./src/app.py",
        "file#src//app.py",
        "file#src\\app.py",
        "file#src/./lib/../app.py",
    ],
    "file#/etc/hosts": ["file#//etc/./hosts", "file#/etc/hosts/"],
    "file#C:/a/b": ["file#C:\\a\\.\\b"],
    "file#../a": ["file#x/../../a"],
    "file#.": ["file#."],
    "file#Makefile": ["file#Makefile", "file#./Makefile"],
    "dep#typing-extensions@4.12.0": [
        "dep#typing_extensions@4.12.0",
        "dep#Typing.Extensions@4.12.0",
        "dep#typing-extensions@4.12.0",
        "dep#TYPING__extensions @ 4.12.0",
    ],
    "dep#ruamel-yaml": [
        "dep#ruamel.yaml",
        "dep#ruamel_yaml",
        "dep#Ruamel-YAML",
        "dep#ruamel.yaml@",
    ],
    "dep#@scope/pkg@1.0": ["dep#@Scope/pkg@1.0"],
    "dep#@scope/pkg": ["dep#@scope/Pkg"],
    "caf\u00e9": ["cafe\u0301", "caf\u00e9"],
    "concept#": ["concept#"],
    "Concept A": ["Concept A"],
    "tool#Py_Test": ["tool#Py_Test"],
}


def test_h62_a_spelling_has_its_canonical_name() -> None:
    """Known spellings give the known name."""
    for spelling, wanted in [(each, wanted) for wanted, all_ in SPELLINGS.items() for each in all_]:
        assert canonical_name(spelling) == wanted


@pytest.mark.parametrize(
    ("path", "root", "wanted"),
    [
        ("/work/shop/src/a.py", "/work/shop", "src/a.py"),
        ("/work/shop//src/a.py", "/work/./shop/", "src/a.py"),
        ("C:\\shop\\a.py", "C:\\shop", "a.py"),
        ("/work/shopping/a.py", "/work/shop", "/work/shopping/a.py"),
        ("/work/shop", "/work/shop", "/work/shop"),
        ("src/a.py", "/work/shop", "src/a.py"),
        ("/a.py", "me/shop", "/a.py"),
        ("/a.py", "", "/a.py"),
    ],
)
def test_h62_a_path_below_the_repository_is_relative_to_it(
    path: str, root: str, wanted: str
) -> None:
    """Other paths stay absolute; a repository that is no directory changes nothing."""
    assert file_path(path, root) == wanted


@given(st.sampled_from(["concept#", "file#", "dep#", "", "err#"]), st.text())
def test_h62_a_canonical_name_is_its_own_canonical_name(prefix: str, text: str) -> None:
    """Whatever the text, doing it twice changes nothing, and the result is NFC."""
    once = canonical_name(prefix + text)
    assert canonical_name(once) == once
    assert unicodedata.is_normalized("NFC", once)


def test_h62_keys_are_made_with_the_same_rules() -> None:
    """The functions that make keys and the names that are stored cannot disagree."""
    assert keys.concept_key("Rate Limiting") == f"concept#{concept_slug('rate_limiting')}"
    assert keys.file_key("./src//a.py") == f"file#{file_path('src/a.py')}"
    assert keys.dependency_key("Ruamel.YAML", "1_0") == f"dep#{dependency_name('ruamel_yaml')}@1_0"
