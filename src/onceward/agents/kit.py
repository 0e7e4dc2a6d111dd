"""Kit: write an agent in Python from handlers; provides the loop, heartbeats and idempotency.

Reads commands from stdin and writes answers to stdout. A command whose answer is cached is answered
from the cache. A duplicate of the running command gets the same answer without running again.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from onceward.agents import artifacts, protocol
from onceward.agents.answer_cache import AgentAnswer, AnswerCache, cache_folder
from onceward.agents.answer_reuse import AnswerReuse
from onceward.agents.handler_results import HandlerResult, event_of
from onceward.agents.handlers import HandlerCalls, version_of
from onceward.agents.line_reader import LINE_BYTES_MAX, OversizedLine
from onceward.agents.message_writer import MessageWriter
from onceward.agents.protocol import Message, message_and_fix
from onceward.agents.stdio_streams import LineQueue, run_on_streams
from onceward.errors import FileMissing, InvalidArgument, MessageRefused, OncewardError, WrongPath
from onceward.keys.canonical import loads
from onceward.keys.command import idempotency_key
from onceward.system import Clock, Files, Ids, SystemClock, SystemFiles, timestamp


class Command:
    """A command as its handler sees it."""

    def __init__(self, message: Message, workspace: Path, agent: Agent) -> None:
        """Wrap a command message for its handler."""
        #: The complete message, unchanged.
        self.message = message
        #: The directory to work in.
        self.workspace = workspace
        #: implement, implement_changes, review or update_spec.
        self.action: str = message["action"]
        self.task_id: str = message["task_id"]
        #: What the work depends on, including `goal`.
        self.inputs: dict[str, Any] = message["inputs"]
        #: Expected files, each with `path` and `required`.
        self.expected_outputs: list[dict[str, Any]] = message["expected_outputs"]
        #: What happened before, not part of the key: `last_error`, `tests`, `findings`,
        #: `changed_files` and `diff`, each if present.
        self.context: dict[str, Any] = message.get("context", {})
        self.snapshot_id: str = message["version"]["snapshot_id"]
        #: The idempotency key: equal for equal work.
        self.key: str = message["idempotency_key"]
        #: Time by which the answer must arrive, ISO 8601.
        self.deadline: str = message["deadline"]
        self.attempt: int = message["retry"]["attempt"]
        self.max_attempts: int = message["retry"]["max_attempts"]
        self._agent = agent

    def progress(self, text: str, **fields: object) -> None:
        """Report progress: a builder sends an event, other agents write a log line."""
        if self._agent.type == "builder":
            payload = {**fields, "message": text}
            self._agent.send_event(self.message, "builder.progress", payload)
        else:
            self._agent.send_log(text, level="info", **fields)

    def log(self, text: str, *, level: str = "info", **fields: object) -> None:
        """Write a log line: debug, info, warn or error."""
        self._agent.send_log(text, level=level, **fields)

    def produced(self, path: str) -> None:
        """Report a file before the work is done."""
        described = artifacts.describe(self.workspace, path)
        self._agent.send_event(self.message, "artifact.produced", {}, artifacts=[described])


#: Handles a command; `def` or `async def`.
Handler = Callable[[Command], HandlerResult | Awaitable[HandlerResult]]


class _CommandFailure(Exception):
    """A failure that is sent to the orchestrator as an `error` event."""

    def __init__(self, *, code: str, message: str, retryable: bool = False) -> None:
        super().__init__(message)
        self.code, self.message, self.retryable = code, message, retryable


class Agent:
    """An agent of one type: handlers by action, and a loop that answers commands idempotently."""

    def __init__(  # noqa: PLR0913 - what differs in tests comes by name
        self,
        type: str | None = None,  # noqa: A002 - what the protocol calls it
        *,
        agent_id: str | None = None,
        version: str | None = None,
        retryable: Sequence[type[Exception]] = (),
        environ: Mapping[str, str] | None = None,
        files: Files | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        """Create an agent of this type. Default: the type that the orchestrator started.

        `retryable` lists exceptions of handlers after which another attempt may help, besides
        connection errors. Other runs reuse only answers of the same `version`. Default: the
        checksum of the handler's file. With an empty version no other run reuses an answer.
        """
        env = os.environ if environ is None else environ
        wanted = type or env.get("ONCEWARD_AGENT", "")
        if wanted not in protocol.AGENT_TYPES:
            known = ", ".join(protocol.AGENT_TYPES)
            message = f"type: must be one of {known}, not {wanted!r:.60}"
            fix = 'pass type="builder", or start the agent with a run, which sets ONCEWARD_AGENT'
            raise InvalidArgument(message, fix=fix, field="type")
        #: builder, reviewer or spec_maintainer.
        self.type: str = wanted
        self.agent_id = agent_id
        self.workspace = Path(env.get("ONCEWARD_WORKSPACE") or ".").resolve()
        kept = cache_folder(wanted, self.workspace, env)
        self._clock, self._ids = clock or SystemClock(), ids or Ids()
        self.cache = AnswerCache(kept, files=files or SystemFiles(), clock=self._clock)
        self.version = version
        self.run_id = env.get("ONCEWARD_RUN", "")
        self._reuse = AnswerReuse(self.cache, self.workspace, self.run_id)
        self._calls = HandlerCalls(retryable)
        self.writer = MessageWriter(
            agent_type=wanted, agent_id=agent_id, env=env, clock=self._clock
        )
        #: Called before a command's work, and before files of a reusable answer are restored.
        self.before_work: Callable[[Command], None] = lambda _: None
        self._handlers: dict[str, Handler] = {}
        self._stdin_lines = LineQueue()

    def on(self, *actions: str) -> Callable[[Handler], Handler]:
        """Register the decorated function for these actions."""

        def register(handler: Handler) -> Handler:
            self._handlers.update(dict.fromkeys(actions, handler))
            return handler

        return register

    # --- the loop --------------------------------------------------------------------------------

    def run(self, stdin: BinaryIO | None = None, stdout: BinaryIO | None = None) -> None:
        """Answer commands until stdin ends; commands received before its end are still handled."""
        run_on_streams(self._run, stdin, stdout)

    def _run(self, stdin: BinaryIO, stdout: BinaryIO) -> None:
        reading = threading.Thread(target=self._stdin_lines.fill, args=(stdin,), daemon=True)
        reading.start()
        with self._calls, self.writer.attach(stdout):
            while (line := self._stdin_lines.next()) is not None:
                self._handle_line(line)

    def _handle_line(self, line: bytes | OversizedLine) -> None:
        """Handle one line; invalid content never stops the loop."""
        try:
            if isinstance(line, OversizedLine):
                problem = f"has {line.size} bytes; at most {LINE_BYTES_MAX} are allowed"
                raise MessageRefused(path="line", problem=problem, fix=protocol.SEND_LESS)
            message = protocol.decode(line)
            if message["kind"] != "command":
                problem = f"must be command, not {message['kind']}"
                raise MessageRefused(path="kind", problem=problem, fix="send commands only")
        except InvalidArgument as exc:
            self._refuse(line, exc)
        else:
            self._handle(message)

    def _refuse(self, line: bytes | OversizedLine, problem: InvalidArgument) -> None:
        """Answer an invalid command with an error, or log it if it cannot be answered."""
        address = _reply_address(line)
        text = message_and_fix(problem)
        failure = _CommandFailure(code="INVALID_COMMAND", message=text)
        try:
            if address is not None:
                self._send_answer(address, self._error_answer(failure))
                return
        except InvalidArgument:
            pass  # Its ids are invalid, so it cannot be answered.
        self.send_log(f"rejected a message: {text}", level="error")

    def _handle(self, message: Message) -> None:
        try:
            handler = self._handler_for(message)
        except _CommandFailure as failure:
            self._send_answer(message, self._error_answer(failure))
            return
        self.writer.set_status("busy", message["task_id"])
        try:
            answer = self._answer(message, handler)
        except _CommandFailure as failure:
            answer = self._error_answer(failure)
        finally:
            self.writer.set_status("ready")
        # Taken before the answer is sent: a later command is a new attempt, not a duplicate.
        key = message["idempotency_key"]
        duplicates = self._stdin_lines.take_containing(key.encode())
        self._send_answer(message, answer)
        self._answer_duplicates(duplicates, key, answer)

    def _answer_duplicates(self, lines: Sequence[bytes], key: str, answer: AgentAnswer) -> None:
        """Send the same answer, also a failure, to duplicates that arrived during the work."""
        for line in lines:
            try:
                message = protocol.decode(line)
                is_same = message["idempotency_key"] == key and bool(self._handler_for(message))
            except (InvalidArgument, KeyError, _CommandFailure):
                is_same = False
            if is_same:
                self._send_answer(message, answer)
            else:
                self._handle_line(line)

    def _answer(self, message: Message, handler: Handler) -> AgentAnswer:
        """Return the answer to a command, from the cache or from its handler."""
        kept = self.cache.get(message["idempotency_key"], self.workspace, run=self.run_id)
        if kept is not None:
            return kept
        self._call_handler(message, self.before_work)
        version = version_of(handler) if self.version is None else self.version
        try:
            answer = self._reuse.find(message, version)
            if answer is not None:
                self.send_log(f"the answer of {answer.run} is reused: same inputs and files")
                answer = replace(answer, run=self.run_id)
            else:
                answer = self._run_handler(message, handler, version)
            self.cache.put(answer, self.workspace)
        except OncewardError as exc:
            # Also raised by the search for a reusable answer, before the handler was called.
            text = f"the answer cache failed; the work may be done: {message_and_fix(exc)}"
            raise _CommandFailure(code="NOT_KEPT", message=text, retryable=True) from exc
        return answer

    def _run_handler(self, message: Message, handler: Handler, version: str) -> AgentAnswer:
        """Run the handler and return its answer, with the reason why other runs may reuse it."""
        before = self._reuse.tree_before(message, version)
        result = self._call_handler(message, handler)
        answer = self._answer_of(message, result)
        read = self._read_files(result)
        basis = self._reuse.basis(message, answer, before, read) if self.run_id and version else ""
        return replace(answer, version=version, basis=basis, read=read or [])

    def _read_files(self, result: object) -> list[dict[str, Any]] | None:
        """Return the files that a result depends on; None if unknown or if one is missing."""
        if not isinstance(result, HandlerResult) or result.read is None:
            return None
        try:
            return [artifacts.describe(self.workspace, path) for path in result.read]
        except OncewardError:
            return None

    def _call_handler(self, message: Message, handler: Callable[[Command], object]) -> object:
        try:
            return self._calls.call(handler, Command(message, self.workspace, self))
        except OncewardError as exc:
            raise _CommandFailure(
                code=exc.code, message=message_and_fix(exc), retryable=exc.retryable
            ) from exc
        except (Exception, SystemExit) as exc:
            traceback.print_exc(file=sys.stderr)
            text = f"{type(exc).__name__}: {exc}"
            is_retryable = self._calls.is_retryable(exc)
            raise _CommandFailure(
                code="HANDLER_FAILED", message=text, retryable=is_retryable
            ) from exc

    def _handler_for(self, message: Message) -> Handler:
        """Return the handler; raise if the command is for another agent or its key is wrong."""
        if message["to"]["agent_type"] != self.type:
            wanted = message["to"]["agent_type"]
            text = f"the command is for a {wanted}, but this agent is a {self.type}"
            raise _CommandFailure(code="WRONG_AGENT", message=text)
        key = idempotency_key(
            action=message["action"],
            task_id=message["task_id"],
            snapshot_id=message["version"]["snapshot_id"],
            inputs=message["inputs"],
            expected_outputs=message["expected_outputs"],
        )
        if key != message["idempotency_key"]:
            given = message["idempotency_key"]
            text = f"the command has the idempotency_key {given}, but its content has {key}"
            raise _CommandFailure(code="KEY_MISMATCH", message=text)
        handler = self._handlers.get(message["action"])
        if handler is None:
            can = ", ".join(sorted(self._handlers)) or "none"
            text = f"this agent has no handler for {message['action']}; it has handlers for: {can}"
            raise _CommandFailure(code="UNKNOWN_ACTION", message=text)
        return handler

    def _answer_of(self, message: Message, result: object) -> AgentAnswer:
        """Return the answer for a handler's result; raise if its files are missing or invalid."""
        if not isinstance(result, HandlerResult):
            text = f"the handler returned a {type(result).__name__}, not a HandlerResult"
            raise _CommandFailure(code="BAD_RESULT", message=text)
        wanted = [each["path"] for each in message["expected_outputs"] if each["required"]]
        paths = dict.fromkeys((*result.artifacts, *wanted))
        try:
            event, status = event_of(self.type, result)
            answer = AgentAnswer(
                key=message["idempotency_key"],
                snapshot_id=message["version"]["snapshot_id"],
                event=event,
                status=status,
                payload=dict(result.payload),
                artifacts=[artifacts.describe(self.workspace, path) for path in paths],
                run=self.run_id,
            )
            # A redacted copy that the handler can no longer change: the cached answer must equal
            # the one that is sent.
            sent = protocol.decode(protocol.encode(self._event(message, answer)))
            answer = replace(answer, payload=self.writer.redacted(sent["payload"]))
            # An answer that cannot be sent must not be cached.
            protocol.encode(self._event(message, answer))
        except FileMissing as exc:
            text = f"{exc.message}, but the command requires it or the result names it"
            raise _CommandFailure(code="MISSING_OUTPUT", message=text, retryable=True) from exc
        except (InvalidArgument, WrongPath) as exc:
            raise _CommandFailure(code="BAD_RESULT", message=message_and_fix(exc)) from exc
        return answer

    def _error_answer(self, failure: _CommandFailure) -> AgentAnswer:
        """Return the error answer for a failure; text that cannot be encoded is escaped."""
        text = failure.message.encode("utf-8", "backslashreplace").decode()
        payload = {
            "code": failure.code,
            "message": self.writer.truncate(text),
            "retryable": failure.retryable,
        }
        return AgentAnswer(
            key="", snapshot_id="", event="error", status=None, payload=payload, artifacts=()
        )

    # --- sending ---------------------------------------------------------------------------------

    def send_event(
        self,
        message: Message,
        event: str,
        payload: Mapping[str, Any],
        artifacts: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Send an event before the answer."""
        progress_event = AgentAnswer(
            key=message["idempotency_key"],
            snapshot_id=message["version"]["snapshot_id"],
            event=event,
            status=None,
            payload=self.writer.redacted(payload),
            artifacts=list(map(dict, artifacts or ())),
        )
        self.writer.send(self._event(message, progress_event))

    def send_log(self, text: str, *, level: str = "info", **fields: object) -> None:
        """Write a log line, which the orchestrator stores with the run."""
        self.writer.log(text, level=level, **fields)

    def _send_answer(self, message: Message, answer: AgentAnswer) -> None:
        self.writer.send(self._event(message, answer))

    def _event(self, message: Message, answer: AgentAnswer) -> Message:
        """Return the event message that answers this command message."""
        return protocol.event(
            message_id=self._ids.new("msg"),
            correlation_id=message["correlation_id"],
            task_id=message["task_id"],
            agent_type=self.type,
            agent_id=self.agent_id,
            event=answer.event,
            status=answer.status,
            payload=answer.payload,
            artifacts=answer.artifacts or None,
            snapshot_id=message["version"]["snapshot_id"] if "version" in message else None,
            occurred_at=timestamp(self._clock.now()),
        )


def _reply_address(line: bytes | OversizedLine) -> Message | None:
    """Return the ids needed to answer a rejected line, or None."""
    try:
        message = loads(line) if isinstance(line, bytes) else None
    except InvalidArgument:
        return None
    if not isinstance(message, dict) or message.get("kind") != "command":
        return None
    address = {name: message.get(name) for name in ("correlation_id", "task_id")}
    return address if all(isinstance(each, str) and each for each in address.values()) else None
