"""Agent errors: an agent failed, or sent an invalid message."""

from __future__ import annotations

from onceward.errors.arguments import InvalidArgument
from onceward.errors.base import OncewardError


class MessageRefused(InvalidArgument):
    """A message to or from an agent is malformed; it was ignored."""

    code = "INVALID_MESSAGE"

    def __init__(self, path: str, problem: str, *, fix: str = "") -> None:
        """Set the path in the message, such as `event.payload.tests`, and the problem there."""
        #: Path of the invalid part of the message.
        self.path = path
        super().__init__(f"{path}: {problem}", fix=fix, path=path)


class AgentFailed(OncewardError):
    """An agent failed; `code` and `retryable` are those of this failure."""

    code = "AGENT_FAILED"

    def __init__(
        self, message: str, *, code: str, retryable: bool, fix: str = "", **context: object
    ) -> None:
        """Set what the agent, or its supervisor, reported about this failure."""
        super().__init__(message, fix=fix, **context)
        # Of one failure, not of the class: agents report their own codes.
        vars(self).update(code=code, retryable=retryable)
