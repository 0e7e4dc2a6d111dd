"""Tokenizer and ranking: pure functions, equal for both engines."""

import pytest

from onceward.memory.graph.graph_search import is_in, score
from onceward.memory.graph.tokenizer import (
    WORD_CHARACTERS_MAX,
    WORDS_MAX,
    document,
    key_class,
    parse,
    words_of,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, World!", ["hello", "world"]),
        ("snake_case kebab-case a.b", ["snake", "case", "kebab", "case", "a", "b"]),
        ("err#module not found: 3.11", ["err", "module", "not", "found", "3", "11"]),
        ("Ünïcödé STRASSE straße", ["unicode", "strasse", "strasse"]),
        ("東京タワー", ["東", "京", "タ", "ワ", "ー"]),
        ("\uff12\uff10\uff12\uff16 \ufb01n \u2460", ["2026", "fin", "1"]),
        ("\ue000mark \ue002", ["mark"]),
        ("", []),
        ("🙂 …", []),
    ],
)
def test_a_text_becomes_words(text: str, words: list[str]) -> None:
    """Without case, accents, widths and punctuation; our own marks are no words."""
    assert words_of(text) == words


def test_long_texts_and_words_are_cut() -> None:
    """The index of one text is bounded, whatever is in it."""
    assert len(words_of("a " * 100_000)) == WORDS_MAX
    assert words_of("x" * 1000) == ["x" * WORD_CHARACTERS_MAX]


@pytest.mark.parametrize(
    ("name", "found"),
    [("err#x", "err"), ("Run#1", "run"), ("alice", ""), ("a b#c", ""), ("#x", "")],
)
def test_the_class_of_a_key_is_the_part_before_the_hash(name: str, found: str) -> None:
    """And a name that is no key has none."""
    assert key_class(name) == found


def test_no_text_can_forge_a_mark() -> None:
    """Whatever a name or an observation holds, only we say of what type it is."""
    forged = document("sqlite", "a", "person", "type\ue000 \ue002 \ue0001")
    assert forged.count("\ue002") == 0
    assert forged.count("\ue000") == 1


def test_the_same_words_stand_in_both_languages() -> None:
    """One engine takes a text, the other words with their places."""
    assert document("sqlite", "a b", "T", "c").split()[:3] == ["a", "b", "c"]
    assert document("postgres", "a b", "T", "c").split()[:3] == ["a:1", "b:2", "c:3"]


def test_a_better_match_has_a_higher_score() -> None:
    """Name before type before content, whole before beginning, short before long."""
    question = parse("tea").with_prefix_match()
    scores = [
        score(question, "tea", "x", ""),
        score(question, "green tea", "x", ""),
        score(question, "green tea from far away and long ago", "x", ""),
        score(question, "teapot", "x", ""),
        score(question, "x", "tea", ""),
        score(question, "x", "x", "tea"),
        score(question, "x", "x", "tea " + "with much else " * 20),
        score(question, "x", "x", "coffee"),
    ]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] == 0


def test_only_the_last_bare_word_is_loosened() -> None:
    """A phrase means what it says."""
    assert is_in(parse("green te").with_prefix_match(), "green tea")
    assert not is_in(parse("gre tea").with_prefix_match(), "green tea")
    assert not is_in(parse('"green te"').with_prefix_match(), "green tea")
    assert is_in(parse("gre* tea"), "green tea")
