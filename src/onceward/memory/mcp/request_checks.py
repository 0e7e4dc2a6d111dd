"""Request checks: reject invalid JSON-RPC requests before they reach the MCP library."""

from __future__ import annotations

from mcp_types import INVALID_PARAMS, INVALID_REQUEST, ErrorData, JSONRPCError, RequestId

from onceward.keys.canonical import join_path
from onceward.keys.encoding import is_encodable


class InvalidMessage(Exception):
    """A line without a valid message, with the error response to send."""

    def __init__(self, code: int, message: str, request_id: RequestId | None) -> None:
        """Respond with this id; None if the id is unknown."""
        error = ErrorData(code=code, message=message)
        self.answer = JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
        super().__init__(message)


def check_request(value: object) -> None:
    """Raise InvalidMessage for a request with an invalid id or invalid Unicode."""
    if not isinstance(value, dict) or "method" not in value:
        return
    request_id = value.get("id")
    is_text = isinstance(request_id, str) and is_encodable(request_id)
    if "id" in value and not is_text and type(request_id) is not int:
        raise InvalidMessage(INVALID_REQUEST, "id: must be a string or an integer", None)
    if path := _unpaired_surrogate_path(value):
        message = f"{path}: contains an unpaired surrogate; fix: send valid Unicode"
        raise InvalidMessage(INVALID_PARAMS, message, request_id)


def _unpaired_surrogate_path(value: object) -> str:
    """Return the path of a string with an unpaired surrogate; empty if there is none."""
    waiting: list[tuple[object, str]] = [(value, "")]
    while waiting:
        each, path = waiting.pop()
        if isinstance(each, str) and not is_encodable(each):
            return path or "message"
        if isinstance(each, dict):
            if not all(map(is_encodable, each)):
                return path or "message"
            waiting += [(inner, join_path(path, name)) for name, inner in each.items()]
        elif isinstance(each, list):
            waiting += [(inner, join_path(path, at)) for at, inner in enumerate(each)]
    return ""
