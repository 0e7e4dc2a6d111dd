"""Agent errors: an agent failed, or a message to or from an agent is invalid."""

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
        """Set the failure as the agent or its supervisor reported it."""
        super().__init__(message, fix=fix, **context)
        # On the instance, not the class: agents report codes of their own.
        vars(self).update(code=code, retryable=retryable)
