"""The check of words rejects what it lists, where it stands, and accepts plain text."""

from pathlib import Path

import pytest

from docs.make import wording

#: A file, its text, and the line of what is wrong in it.
SAMPLES = [
    ("page.md", "Of a run\nthat nobody reads.\n", 2),
    ("code.py", "class HouseKeeper:\n    pass\n", 1),
    ("code.py", "is_half_done = True\n", 1),
    ("code.py", "isToldTwice = True\n", 1),
    ("code.py", 'text = f"{1} anew"\n', 1),
    ("code.py", 'text = (\n    "the lease runs "\n    f"out after {1} s"\n)\n', 2),
    ("code.py", 'text = "a lease" " runs" + " out"\n', 1),
    ("code.py", 'text = "the lease runs\\nout"\n', 1),
    ("code.py", "# Wait until the lease\n# has run out.\n", 1),
    ("query.sql", "select 1;\n-- For nobody.\n", 2),
    ("query.sql", "select in_doubt from calls;\n", 1),
    ("query.sql", "-- Calls that are in\n-- doubt.\n", 1),
    ("code.ts", "const nobodyWaits = 1;\n", 1),
    ("code.ts", "type Told = string;\n", 1),
    ("code.ts", 'const text = "the lease runs "\n  + "out";\n', 1),
    ("code.ts", "// Wait until the lease\n// has run out.\n", 1),
    ("code.ts", "/**\n * The lease\n * runs out.\n */\n", 2),
    ("page.tsx", "<p>\n  The lease\n  runs out.\n</p>\n", 2),
    ("page.tsx", "<p>The lease <b>runs</b> out.</p>\n", 1),
    ("code.js", "const askAnew = 1;\n", 1),
    ("style.css", "/* Of the house. */\n", 1),
    ("rules.yml", "summary: nobody\n", 1),
    ("rules.yml", "# The lease\n# runs out.\n", 1),
    ("page.html", "<title>The lease\nruns out</title>\n", 1),
    ("picture.svg", "<text>the lease</text>\n<text>runs out</text>\n", 1),
    ("picture.svg", '<svg aria-label="told"/>\n', 1),
]


def test_a_rejected_word_is_reported_with_its_line_and_its_replacement() -> None:
    """The finding names what to write instead, in any case and across line breaks."""
    text = "The lease is free.\nIt ran in 3 s. Nobody holds it, and it is harmless\nto repeat."
    assert sorted(wording.rejected_words(text)) == [
        (1, '"Nobody": write the actor: worker, caller, operator'),
        (1, '"harmless to repeat": write idempotent'),
    ]


def test_words_that_contain_a_rejected_word_pass() -> None:
    """Only whole words count."""
    assert not list(wording.rejected_words("Households are untold; a warehouse is renewed."))


def test_docstrings_comments_messages_and_names_are_checked() -> None:
    """All that a reader of a module sees counts; parts of a name count as words."""
    source = (
        'def is_told():\n    """Return what was told."""\n    return f"{1} anew"  # the house\n'
    )
    found = [line for line, _ in wording.check_python(source)]
    assert found == [0, 1, 2, 2]


@pytest.mark.parametrize(("file", "text", "line"), SAMPLES)
def test_a_rejected_word_is_found_in_every_kind_of_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, line: int
) -> None:
    """In names, over adjacent literals and comment lines, and between tags."""
    monkeypatch.setattr(wording, "ROOT", tmp_path)
    path = tmp_path / "docs" / file
    path.parent.mkdir()
    path.write_text(text)
    assert wording.checked_files() == [path]
    assert {each.line for each in wording.check(path)} == {line}


def test_every_suffix_has_a_sample() -> None:
    """A new suffix needs a sample above."""
    assert {Path(file).suffix for file, _, _ in SAMPLES} == wording.SUFFIXES


@pytest.mark.parametrize(
    "text",
    [
        'text = ["the lease runs", "out"]\n',
        "the = lease = runs = out = 1\n",
        "# The lease runs.\nx = 1\n# Out.\n",
    ],
)
def test_separate_texts_are_not_joined(text: str) -> None:
    """Only what a reader reads in one piece."""
    assert not list(wording.check_python(text))


@pytest.mark.parametrize(
    ("file", "text", "is_exempted"),
    [
        ("code.py", 'user = "nobody"  # wording: a Unix user\n', True),
        ("code.py", 'user = "wording: nobody"\n', False),
        ("query.sql", "select nobody; -- wording: data\n", True),
        ("query.sql", "select 'wording: nobody';\n", False),
        ("code.ts", 'const user = "nobody"; // wording: data\n', True),
        ("code.ts", 'const user = "wording: nobody";\n', False),
        ("page.tsx", "<p>nobody{/* wording: data */}</p>\n", True),
        ("rules.yml", "user: nobody # wording: data\n", True),
        ("page.md", "nobody <!-- wording: data -->\n", True),
        ("page.md", "wording: nobody\n", False),
    ],
)
def test_only_a_comment_makes_an_exception(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, is_exempted: bool
) -> None:
    """The mark in a text is text."""
    monkeypatch.setattr(wording, "ROOT", tmp_path)
    path = tmp_path / file
    path.write_text(text)
    assert (wording.check(path) == []) is is_exempted


@pytest.mark.parametrize(("words", "is_long"), [(40, False), (41, True)])
def test_a_sentence_has_a_limit(words: int, is_long: bool) -> None:
    """Code is one word, and a sentence ends where the next one begins."""
    sentence = "`a b c` " + "word " * (words - 2) + "end."
    found = list(wording.long_sentences(f"# Title\n\nShort one. {sentence} Next one.\n"))
    assert [line for line, _ in found] == ([2] if is_long else [])


def test_the_command_fails_on_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make lint` stops at a rejected word and says where it is."""
    monkeypatch.setattr(wording, "ROOT", tmp_path)
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("Messages that nobody reads.\n")
    assert wording.main([]) == 1
    assert "docs/page.md:1:" in capsys.readouterr().err
    page.write_text("Messages without a reader.\n")
    assert wording.main([]) == 0
