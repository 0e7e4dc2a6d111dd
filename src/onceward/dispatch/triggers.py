"""Triggers: decide whether a message triggers its group's agent. Pure."""

from __future__ import annotations

from onceward.dispatch.models import Group, TriggerKind


def calls(group: Group, text: str) -> bool:
    """Return whether a message text triggers the group's agent."""
    if group.trigger is TriggerKind.ALWAYS:
        return True
    word, text = group.word.casefold(), text.casefold()
    if group.trigger is TriggerKind.PREFIX:
        start = text.lstrip()
        return start.startswith(word) and _ends(start, len(word))
    at = text.find(word)
    while at >= 0:
        if _ends(text, at + len(word)) and _begins(text, at, word):
            return True
        at = text.find(word, at + 1)
    return False


def _ends(text: str, at: int) -> bool:
    """Return whether a word ends here: `@botany` does not trigger `@bot`."""
    return at >= len(text) or not (text[at].isalnum() or text[at] == "_")


def _begins(text: str, at: int, word: str) -> bool:
    # A word that begins with a sign, such as @, begins anywhere.
    return at == 0 or not word[0].isalnum() or not (text[at - 1].isalnum() or text[at - 1] == "_")
