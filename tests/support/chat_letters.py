"""Chat letters: the dead letters of chat in a store, as tests read and decide them."""

from onceward.client import Onceward
from onceward.dispatch.models import GroupMessage
from onceward.dispatch.operator_actions import Operators
from onceward.retries import DeadLetter


class ChatLetters:
    """The chat letters of one store, and what an operator does with them."""

    def __init__(self, ow: Onceward) -> None:
        self._ow = ow

    def letters(self) -> list[DeadLetter]:
        """Return those that are dead, oldest first."""
        return self._ow.dead.list(source="chat", limit=10_000)[::-1]

    def messages(self, letter: int) -> list[GroupMessage]:
        return Operators(self._ow.store).messages_of(self._ow.dead.show(letter))

    def redrive(self, letter: int) -> list[GroupMessage]:
        """Redrive one; return the messages that are pending again."""
        messages = self.messages(letter)
        return messages if self._ow.dead.redrive(letter, actor="ann", reason="fixed").ids else []

    def drop(self, letter: int) -> bool:
        return self._ow.dead.drop(letter, actor="ann", reason="spam")
