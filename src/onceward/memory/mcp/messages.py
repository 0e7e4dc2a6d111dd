"""Messages: which JSON-RPC requests are refused before they reach the server, on every wire."""

from __future__ import annotations

from mcp_types import INVALID_PARAMS, INVALID_REQUEST, ErrorData, JSONRPCError, RequestId

from onceward.keys.canonical import join_path
from onceward.keys.encoding import is_encodable


class NoMessage(Exception):
    """A line that holds no message, with what to answer to it."""

    def __init__(self, code: int, message: str, request_id: RequestId | None) -> None:
        """Answer under this id; None where the line shows none."""
        error = ErrorData(code=code, message=message)
        self.answer = JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
        super().__init__(message)


def check_request(value: object) -> None:
    """Raise NoMessage for a request with an odd id, or with text that is no Unicode."""
    if not isinstance(value, dict) or "method" not in value:
        return
    request_id = value.get("id")
    is_text = isinstance(request_id, str) and is_encodable(request_id)
    if "id" in value and not is_text and type(request_id) is not int:
        raise NoMessage(INVALID_REQUEST, "id: must be a string or an integer", None)
    if path := _broken_text(value):
        message = f"{path}: holds half of a surrogate pair; fix: send well-formed Unicode"
        raise NoMessage(INVALID_PARAMS, message, request_id)


def _broken_text(value: object) -> str:
    """Return where a JSON value holds half of a surrogate pair; nothing if nowhere."""
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
