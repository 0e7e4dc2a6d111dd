"""Token budget: the estimate of tokens, quotation, and relative times."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.memory.fact_text import BudgetedText, quoted, relative_time, tokens

NOW = datetime(2026, 2, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("", 0),
        ("a", 2),
        ("four words are here", 6),
        ("x" * 400, 100),
        ("日" * 10, 10),
        ("#-" * 9, 18),
    ],
)
def test_tokens_are_rather_too_many_than_too_few(text: str, least: int) -> None:
    """Words, digits, marks and other scripts are counted as the greediest model does."""
    assert tokens(text) >= least


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_a_quotation_is_one_line_that_nothing_in_it_ends(text: str, size: int) -> None:
    """Between its two marks there is no other, no line break, and never more than asked for."""
    line = quoted(text, size)
    assert line[0] == line[-1] == '"'
    assert line.count('"') == 2
    assert len(line) <= size + 2
    assert len(line.splitlines()) == 1


def test_invisible_characters_are_removed() -> None:
    """Controls, separators and marks that turn the text around become blanks."""
    assert quoted("a\x1b[2J\u202eb\u2028c\td\0", 50) == '"a [2J b c d"'


def test_a_text_grows_as_long_as_there_is_room() -> None:
    """The longest variant that fits is taken; what does not fit is left out and the next tried."""
    shown = BudgetedText(tokens_max=12)
    assert shown.add("one two three four five six seven eight nine ten", "one two")
    assert not shown.add("x" * 60)
    assert shown.add("three")
    assert shown.text == "one two\nthree"
    assert tokens(shown.text) <= 12


@pytest.mark.parametrize(
    ("age", "shown"),
    [
        (timedelta(seconds=-90), "just now"),
        (timedelta(seconds=59), "just now"),
        (timedelta(minutes=59), "59min ago"),
        (timedelta(hours=47), "47h ago"),
        (timedelta(days=2), "2d ago"),
        (timedelta(days=400), "400d ago"),
    ],
)
def test_relative_times_have_two_words(age: timedelta, shown: str) -> None:
    """Clocks differ: what is said to come was just now."""
    assert relative_time(NOW - age, NOW) == shown
