"""Agent errors: an agent, or what it sent, is not acceptable."""

from __future__ import annotations

from onceward.errors.arguments import InvalidArgument
from onceward.errors.base import OncewardError


class MessageRefused(InvalidArgument):
    """A message to or from an agent has the wrong shape; nothing was done with it."""

    def __init__(self, path: str, problem: str, *, fix: str = "") -> None:
        """Name the place in the message, such as `event.payload.tests`, and what is wrong there."""
        #: Where in the message it is wrong.
        self.path = path
        super().__init__(f"{path}: {problem}", fix=fix, path=path)


class AgentFailed(OncewardError):
    """An agent did not do its work; `code` and `retryable` are those of this failure."""

    code = "UNAVAILABLE"

    def __init__(
        self, message: str, *, code: str, retryable: bool, fix: str = "", **context: object
    ) -> None:
        """Keep what the agent, or its supervisor, said about this failure."""
        super().__init__(message, fix=fix, **context)
        # Of one failure, not of the class: agents bring codes of their own.
        vars(self).update(code=code, retryable=retryable)
