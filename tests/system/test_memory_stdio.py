"""The memory server on raw pipes: invalid messages, and shutdown."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from onceward.memory import Memory
from tests.support.mcp_clients import COMMAND, STOP_SECONDS_MAX, entity, pipe, relation, store_in

#: Whatever comes in, the next call is answered. Each with the id that its answer has.
GARBAGE: list[tuple[bytes, object]] = [
    (b"hello", None),
    (b"{", None),
    (b"[]", None),
    (b"null", None),
    (b"42", None),
    (b'"text"', None),
    (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', 7),
    (b'{"jsonrpc":"2.0","id":"x","method":5}', "x"),
    (b'{"method":5,"jsonrpc":"2.0","id":8}', 8),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', None),
    (b'{"jsonrpc":"2.0","id":9,"method":"ping"', 9),
    (b"\xff\xfe\x00\x01", None),
    (b"\x00" * 1000, None),
    (b'{"jsonrpc":"2.0","id":10,"method":"ping","params":' + b"[" * 99_999 + b"]" * 99_999, 10),
    (b'{"params":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b',"id":11}', 11),
    (b"{" * 300_000, None),
    (b'{"jsonrpc":"2.0","id":12,"method":"ping","params":{"n":' + b"9" * 10_000 + b"}}", 12),
]  # fmt: skip


def names_in(directory: Path) -> list[str]:
    with Memory.open(store_in(directory)) as memory:
        return [each["name"] for each in memory.read_graph()["entities"]]


def test_garbage_is_answered_and_does_no_harm(tmp_path: Path) -> None:
    """Lines that are no messages are refused, under their id where they show one."""
    with pipe(tmp_path) as server:
        server.open()
        for line, expected in GARBAGE:
            server.raw(line + b"\n")
            answer = server.answer()
            assert "error" in answer, line[:80]
            assert answer["id"] == expected, line[:80]
        server.raw(b"\n \r\n\n")
        number = server.call("create_entities", entities=[entity("a")])
        assert server.answer()["id"] == number
        code, answers, stderr = server.end()
    assert (code, answers) == (0, [])
    assert "Traceback" not in stderr


def test_odd_but_legal_requests_are_answered(tmp_path: Path) -> None:
    """Unknown methods, missing arguments, repeated ids and answers to no request."""
    with pipe(tmp_path) as server:
        server.open()
        server.raw(b'{"jsonrpc":"2.0","id":"never asked","result":{}}\n')
        server.raw(b'{"jsonrpc":"2.0","method":"notifications/nothing","params":{"a":1}}\n')
        server.raw(
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}\n'
        )
        odd: list[tuple[str, dict[str, Any]]] = [
            ("nothing/known", {}),
            ("tools/call", {}),
            ("tools/call", {"name": 5}),
            ("tools/call", {"name": "read_graph", "arguments": []}),
            ("resources/read", {"uri": "memory://nothing"}),
        ]
        for method, params in odd:
            number = server.request(method, **params)
            answer = server.answer()
            assert (answer["id"], "error" in answer) == (number, True), (method, params, answer)
        server.raw(b'{"jsonrpc":"2.0","id":5,"method":"ping"}\r\n' * 2)
        assert [server.answer()["id"], server.answer()["id"]] == [5, 5]
        assert server.end()[0] == 0


def test_half_an_emoji_and_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """The answer names the place; nothing of the call is stored, and the server goes on."""
    with pipe(tmp_path) as server:
        server.open()
        call = {"name": "create_entities", "arguments": {"entities": [entity("a", "cut \ud83d")]}}
        line = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call})
        server.raw(line.encode() + b"\n")
        answer = server.answer()
        assert (answer["id"], answer["error"]["code"]) == (2, -32602)
        assert (
            "params.arguments.entities[0].observations[0]: contains an unpaired surrogate"
            in str(answer["error"])
        )
        server.raw(line.encode().replace(b"\\ud83d", b"\xff") + b"\n")
        assert server.answer()["error"]["code"] == -32700
        server.raw(line.replace('"id": 2', '"id": 1.5').replace("\\ud83d", "").encode() + b"\n")
        answer = server.answer()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        server.request("tools/call", name="read_graph", arguments={})
        assert server.answer()["result"]["structuredContent"]["entities"] == []


def test_a_line_beyond_all_bounds_is_refused_under_its_id(tmp_path: Path) -> None:
    """A request of more than 64 MiB is not kept in memory, and its sender gets an error."""
    with pipe(tmp_path) as server:
        server.open()
        text = b"x" * (1024 * 1024)
        server.raw(b'{"method":"tools/call","params":{"name":"')
        for _ in range(65):
            server.raw(text)
        server.raw(b'"},"jsonrpc":"2.0","id":77}\n')
        answer = server.answer()
        assert (answer["id"], "at most" in answer["error"]["message"]) == (77, True)
        number = server.call("read_graph")
        assert server.answer()["id"] == number


def test_a_huge_request_is_an_answer_and_no_end(tmp_path: Path) -> None:
    """Twenty megabytes in one call are refused or kept, and the next call is answered."""
    with pipe(tmp_path) as server:
        server.open()
        number = server.call("create_entities", entities=[entity("big", "x" * 20_000_000)])
        answer = server.answer()
        assert (answer["id"], answer["result"]["isError"]) == (number, True)
        assert "entities[0].observations[0]" in answer["result"]["content"][0]["text"]
        many = [entity(f"e{each}", "y" * 100_000) for each in range(100)]
        number = server.call("create_entities", entities=many)
        answer = server.answer()
        assert (answer["id"], answer["result"].get("isError", False)) == (number, False)


def test_calls_that_do_not_wait_are_done_in_their_order(tmp_path: Path) -> None:
    """Entities, a relation between them and its deletion, all sent at once before stdin ends."""
    with pipe(tmp_path) as server:
        server.open()
        numbers = []
        for each in range(50):
            pair = [entity(f"a{each}"), entity(f"b{each}")]
            numbers.append(server.call("create_entities", entities=pair))
            link = relation(f"a{each}", f"b{each}")
            numbers.append(server.call("create_relations", relations=[link]))
        numbers.append(server.call("delete_relations", relations=[link]))
        numbers.append(server.call("read_graph"))
        code, answers, stderr = server.end()
    assert code == 0, stderr
    assert [each["id"] for each in answers] == numbers
    assert not [each for each in answers if each["result"].get("isError")]
    graph = answers[-1]["result"]["structuredContent"]
    assert (len(graph["entities"]), len(graph["relations"])) == (100, 49)


def test_the_end_of_stdin_is_the_end(tmp_path: Path) -> None:
    """Exit 0, at any moment: before the handshake, after it, in the middle of a line."""
    for last in (b"", b'{"jsonrpc":"2.0","id":1,', b'{"jsonrpc":"2.0","id":1,"method":"ping"}'):
        with pipe(tmp_path) as server:
            if last:
                server.open()
            server.raw(last)
            code, answers, stderr = server.end()
        assert (code, "Traceback" in stderr) == (0, False), stderr
        assert len(answers) == (1 if last else 0)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_after_what_was_asked(tmp_path: Path, how: signal.Signals) -> None:
    """Exit 0 within seconds, and whatever was acknowledged is there."""
    with pipe(tmp_path) as server:
        server.open()
        server.call("create_entities", entities=[entity("a")])
        assert server.answer()["result"]["structuredContent"]["entities"] == [entity("a")]
        code, _, stderr = server.end(how)
    assert (code, stderr) == (0, "stopped\n")
    assert names_in(tmp_path) == ["a"]


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    """Killed after each answer, at no moment has it lost what it had answered."""
    for number in range(3):
        with pipe(tmp_path) as server:
            server.open()
            server.call("create_entities", entities=[entity(f"e{number}")])
            server.answer()
            server.process.kill()
            server.process.wait()
        assert names_in(tmp_path) == [f"e{each}" for each in range(number + 1)]


def test_a_client_that_is_gone_is_no_failure(tmp_path: Path) -> None:
    """The answers are not read any more: what was asked is done, and the process ends by itself."""
    with pipe(tmp_path) as server:
        server.open()
        assert server.process.stdout is not None
        server.process.stdout.close()
        server.call("create_entities", entities=[entity("a")])
        assert server.process.wait(STOP_SECONDS_MAX) == 0
        assert server.process.stderr is not None
        assert b"Traceback" not in server.process.stderr.read()
    assert names_in(tmp_path) == ["a"]


def test_a_client_that_never_reads_does_not_hold_it_for_ever(tmp_path: Path) -> None:
    """The pipe is full, stdin ends, and a signal ends the wait for a reader."""
    with pipe(tmp_path) as server:
        server.open()
        big = [entity(f"e{each}", "x" * 100_000) for each in range(10)]
        server.call("create_entities", entities=big)
        server.call("read_graph")
        server.process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(1.5)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(STOP_SECONDS_MAX) == 0


def test_stdout_is_for_messages_and_stderr_for_the_log(tmp_path: Path) -> None:
    """Even with --verbose every line on stdout is a message; the log names no contents."""
    with pipe(tmp_path, "--verbose") as server:
        server.open()
        server.call("create_entities", entities=[entity("a", "a private matter")])
        server.answer()
        code, answers, stderr = server.end()
    assert (code, answers) == (0, [])
    lines: list[dict[str, Any]] = [json.loads(line) for line in stderr.splitlines()]
    [call] = [each for each in lines if each["event"] == "create_entities"]
    assert set(call) >= {"level", "event", "key", "durationMs", "retries"}
    assert "a private matter" not in stderr


def test_calls_from_a_file_are_answered(tmp_path: Path) -> None:
    """Stdin may be a file, and stdout too."""
    lines: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "file", "version": "1"}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call",
         "params": {"name": "create_entities", "arguments": {"entities": [entity("a")]}}},
    ]  # fmt: skip
    calls, answers = tmp_path / "calls.jsonl", tmp_path / "answers.jsonl"
    calls.write_text("".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in lines))
    with calls.open("rb") as stdin, answers.open("wb") as stdout:
        command = [*COMMAND, "--store", store_in(tmp_path)]
        done = subprocess.run(command, stdin=stdin, stdout=stdout, check=True, timeout=60)
    assert done.returncode == 0
    assert [json.loads(line)["id"] for line in answers.read_text().splitlines()] == [1, 2]


@pytest.mark.parametrize("options", [["--port", "1"], ["--json"], ["--host", "0.0.0.0"]])
def test_options_of_an_address_need_one(tmp_path: Path, options: list[str]) -> None:
    """Without --http they would do nothing, so they are refused, with the way out."""
    done = subprocess.run(
        [*COMMAND, "--store", store_in(tmp_path), *options],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "fix" in done.stderr
