"""The check of words rejects what it lists, where it stands, and accepts plain text."""

from pathlib import Path

import pytest

from docs.make import wording


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
