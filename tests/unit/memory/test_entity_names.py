"""Entity names: names of issues and commands are stable, short enough and redacted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.errors import InvalidArgument
from onceward.keys import canonical_command, error_key, warning_key
from onceward.memory.entity_names import ISSUE_BYTES_MAX, check_entity, command_line, issue_name
from onceward.memory.models import NAME_BYTES_MAX
from onceward.system.redaction import Redactor

MESSAGES = [
    "KeyError: 'x'",
    "Cannot open /home/ada/a.py:10:2",
    "v1.2.3 is too old, got 2026-02-06T12:00:00Z",
    "connection to 10.0.0.1 refused",
]
PIECES = st.sampled_from(
    [
        *("2026-01-01", "10:00", "deadbe1f", "/", "\\", ":", " ", "  ", ".", "err#", "warn#", "#"),
        *("1.2.3", "v", "_", "\0", "İ", "é", "日", "Token", "=", '"', "[redacted]", "x", "\n"),
        *("https://ada:", "secretsecret", "@", "API_KEY", "a/b", "c:\\x", "-", "10.0.0.1"),
    ]
)
TEXTS = st.lists(PIECES, max_size=30).map("".join)


@pytest.mark.parametrize("message", MESSAGES)
def test_an_ordinary_message_has_its_stable_key_for_a_name(message: str) -> None:
    """Nothing is added to the rules of the keys where they settle at once."""
    assert issue_name(message, Redactor()) == error_key(message)
    assert issue_name(message, Redactor(), is_warning=True) == warning_key(message)


@given(TEXTS, st.booleans())
def test_names_of_issues_settle(message: str, is_warning: bool) -> None:
    """Made of itself, a name is the same, keeps the grammar and has nothing left to redact."""
    redactor = Redactor(["secretsecret"])
    try:
        name = issue_name(message, redactor, is_warning=is_warning)
    except InvalidArgument:
        return
    assert issue_name(name, redactor, is_warning=is_warning) == name
    assert redactor.text(name) == name
    assert "secretsecret" not in name
    assert "\0" not in name
    check_entity(name, "Warning" if is_warning else "Error", "entities[0]")


def test_what_a_hash_kept_apart_is_put_together() -> None:
    """Taking one thing out can uncover another, which is taken out as well."""
    assert issue_name("failed 2026-01-01 deadbe1f 10:00") == "err#failed <ts>"


def test_a_word_that_only_looks_like_a_secret_in_small_letters_is_redacted_once() -> None:
    """The name is the same before and after the graph has looked at it."""
    redactor = Redactor()
    name = issue_name("Token: abcdef rejected", redactor)
    assert name == "err#token: [redacted] rejected" == redactor.text(name)


@pytest.mark.parametrize("character", ["x", "é", "日", "😀"])
@pytest.mark.parametrize("tail", ["", " password=hunter2222 and more"])
def test_a_long_message_has_a_name_that_fits(character: str, tail: str) -> None:
    """It is cut between characters, so that even the name of its fix fits, and never in a mark."""
    for length in range(1_890, 1_900, 3):
        message = character * (length // len(character.encode())) + tail * 3
        name = issue_name(message, Redactor())
        assert len(name.encode()) <= ISSUE_BYTES_MAX
        check_entity(name, "Error", "entities[0]")
        assert Redactor().text(name) == name
    assert ISSUE_BYTES_MAX + len("fix##12345678") <= NAME_BYTES_MAX


def test_a_message_without_words_has_no_name() -> None:
    """A message of nothing but times and hashes cannot be distinguished from others."""
    for message in ("", "   ", "1a2b3c4d5e", "\0"):
        with pytest.raises(InvalidArgument):
            issue_name(message)


@given(TEXTS)
def test_lines_of_commands_settle(cmd: str) -> None:
    """A canonical command, read again, is the same, and has nothing left to redact."""
    redactor = Redactor(["secretsecret"])
    line = command_line(cmd, redactor)
    assert canonical_command(line) == line
    assert redactor.text(line) == line
    assert "secretsecret" not in line
    assert "\0" not in line


def test_a_command_is_cut_before_a_mark_that_does_not_fit() -> None:
    """Half a mark would be taken for another secret."""
    for before in range(100, 121):
        line = command_line("x" * before + " --token=abcdefgh --more", Redactor())
        assert len(line) <= 120
        assert Redactor().text(line) == line
        assert "abc" not in line


def test_a_secret_is_seen_where_white_space_kept_it_apart() -> None:
    """White space is collapsed before the last look."""
    line = command_line("deploy API_TOKEN      =      abcdefgh", Redactor())
    assert line == "deploy API_TOKEN = [redacted]"
