"""Request checks: invalid ids and invalid Unicode are rejected with an error."""

import json

import pytest
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCNotification,
    JSONRPCRequest,
)

from onceward.memory.mcp.request_checks import InvalidMessage
from onceward.memory.mcp.stdio_transport import StdioLine, read_message


def _line(request_id: str, params: str = "{}") -> StdioLine:
    return StdioLine(
        f'{{"jsonrpc":"2.0","id":{request_id},"method":"m","params":{params}}}'.encode()
    )


@pytest.mark.parametrize(
    "odd", ["1.5", "1.0", "true", "false", "null", "{}", "[]", "[1]", "1e400", r'"\ud800"', "-0.5"]
)
def test_an_odd_request_id_is_an_invalid_request(odd: str) -> None:
    """It would else be taken for a notification, and its sender would wait forever."""
    for line in (_line(odd), StdioLine(_line(odd).data.replace(b'"id"', b'"\\u0069d"'))):
        with pytest.raises(InvalidMessage, match="id: must be a string or an integer") as caught:
            read_message(line)
        assert caught.value.answer.error.code == INVALID_REQUEST
        assert caught.value.answer.id is None


@pytest.mark.parametrize("usual", ["1", "-5", "0", '"x"', '""', "9007199254740993"])
def test_a_usual_request_id_is_taken(usual: str) -> None:
    """Strings and integers of any size."""
    message = read_message(_line(usual))
    assert isinstance(message, JSONRPCRequest)
    assert message.id == json.loads(usual)


def test_a_message_without_an_id_is_a_notification() -> None:
    """An id inside its params is not its own."""
    line = StdioLine(b'{"jsonrpc":"2.0","method":"m","params":{"id":1.5}}')
    assert isinstance(read_message(line), JSONRPCNotification)


@pytest.mark.parametrize(
    ("params", "path"),
    [
        (r'{"a": ["x", "\ud83d"]}', "params.a[1]"),
        (r'{"a": {"b": "\udc00 x"}}', "params.a.b"),
        (r'{"\ud800": 1}', "params"),
    ],
)
def test_an_unpaired_surrogate_is_rejected_with_its_path(params: str, path: str) -> None:
    """Replacing it would store another text than was sent; two names could become one."""
    with pytest.raises(InvalidMessage) as caught:
        read_message(_line("7", params))
    answer = caught.value.answer
    assert (answer.id, answer.error.code) == (7, INVALID_PARAMS)
    assert answer.error.message.startswith(f"{path}: contains an unpaired surrogate; fix: ")


def test_a_whole_surrogate_pair_is_a_character() -> None:
    """As JSON writes what lies beyond the first plane."""
    message = read_message(_line("1", r'{"a": "\ud83c\udf89"}'))
    assert isinstance(message, JSONRPCRequest)
    assert message.params == {"a": "🎉"}


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    """Also the three bytes that stand for half of a pair."""
    for bad in (b"\xff", "\ud800".encode(errors="surrogatepass")):
        with pytest.raises(InvalidMessage, match="not UTF-8") as caught:
            read_message(StdioLine(_line("7").data.replace(b'"m"', b'"' + bad + b'"')))
        assert caught.value.answer.error.code == PARSE_ERROR
