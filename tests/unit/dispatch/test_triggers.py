"""Which messages call an agent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.dispatch.models import Group, TriggerKind
from onceward.dispatch.triggers import calls


def group(kind: TriggerKind, word: str = "@bot") -> Group:
    return Group(name="g", channel="chat", command=("x",), trigger=kind, word=word)


@given(st.text())
def test_always_means_every_message(text: str) -> None:
    """Any text triggers the agent."""
    assert calls(group(TriggerKind.ALWAYS, ""), text)


@pytest.mark.parametrize(
    "text",
    ["@bot", "@bot help", "@BOT: help", " \n\t@bot, help", "@bot\0", "@bot@bot", "@bot-like"],
)
def test_a_prefix_calls_at_the_beginning(text: str) -> None:
    """In any case of letters, after any white space, followed by no letter or digit."""
    assert calls(group(TriggerKind.PREFIX), text)
    assert calls(group(TriggerKind.MENTION), text)


@pytest.mark.parametrize("text", ["", "bot", "@botany", "@bot_2", "@bot2", "@böt", "%bot", "@bo"])
def test_what_only_looks_like_the_word_does_not_call(text: str) -> None:
    """A longer word is another word, and nothing in it is a wildcard."""
    assert not calls(group(TriggerKind.PREFIX), text)
    assert not calls(group(TriggerKind.MENTION), text)


@pytest.mark.parametrize(
    "text", ["help @bot", "ask @Bot, please", "(@bot)", "@botany and @bot", "mail@bot", "x\n@bot\n"]
)
def test_a_mention_calls_anywhere(text: str) -> None:
    """A prefix does not."""
    assert calls(group(TriggerKind.MENTION), text)
    assert not calls(group(TriggerKind.PREFIX), text)


@pytest.mark.parametrize(
    ("text", "is_called"),
    [("Robin, help", True), ("ask robin", True), ("robins", False), ("a_robin", False)],
)
def test_a_name_is_a_whole_word(text: str, is_called: bool) -> None:
    """One without a sign before it begins where a word begins."""
    assert calls(group(TriggerKind.MENTION, "Robin"), text) is is_called


@pytest.mark.parametrize("word", ["%", "_", ".*", "[a]", "\\", "Straße", "İ"])
def test_every_character_of_the_word_is_itself(word: str) -> None:
    """No pattern is hidden in it, whatever it is made of."""
    for kind in (TriggerKind.PREFIX, TriggerKind.MENTION):
        assert calls(group(kind, word), f"{word} help")
        assert not calls(group(kind, word), "xyz help")


@given(st.text(), st.text(min_size=1).filter(str.strip))
def test_a_prefix_is_also_a_mention(text: str, word: str) -> None:
    """Whatever calls by its beginning would call by a mention."""
    if calls(group(TriggerKind.PREFIX, word), text):
        assert calls(group(TriggerKind.MENTION, word), text)
