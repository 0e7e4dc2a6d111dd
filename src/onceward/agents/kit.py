"""Kit: an agent in Python, from its handlers: the loop, the heartbeat, and answers told once.

Owns what happens to a command between stdin and stdout. A command whose answer is kept is answered
from the cache; one that is at work is not begun again. Knows not what handlers do, nor who asks.
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

from onceward.agents import artifacts, messages
from onceward.agents.cache import Answer, ResultCache, cache_folder
from onceward.agents.handlers import HandlerCalls, version_of
from onceward.agents.lines import LINE_BYTES_MAX, Oversized
from onceward.agents.messages import Message
from onceward.agents.results import Result, event_of
from onceward.agents.reuse import Reuse
from onceward.agents.streams import Waiting, on_streams
from onceward.agents.voice import Voice
from onceward.errors import FileMissing, InvalidArgument, MessageRefused, OncewardError, WrongPath
from onceward.keys.canonical import loads
from onceward.keys.command import idempotency_key
from onceward.seams import Clock, Files, Ids, SystemClock, SystemFiles, timestamp


class Command:
    """A command as its handler sees it."""

    def __init__(self, message: Message, workspace: Path, agent: Agent) -> None:
        """Show what the message says."""
        #: The whole message, as it came.
        self.message = message
        #: The directory to work in.
        self.workspace = workspace
        #: What is to be done: implement, implement_changes, review or update_spec.
        self.action: str = message["action"]
        self.task_id: str = message["task_id"]
        #: What the work depends on; `goal` is among it.
        self.inputs: dict[str, Any] = message["inputs"]
        #: Files that are wanted, each with `path` and `required`.
        self.expected_outputs: list[dict[str, Any]] = message["expected_outputs"]
        #: What happened before, no part of the key: `last_error`, `tests`, `findings`,
        #: `changed_files` and `diff`, each if there is one.
        self.context: dict[str, Any] = message.get("context", {})
        self.snapshot_id: str = message["version"]["snapshot_id"]
        #: The same for the same work, whoever asks and however often.
        self.key: str = message["idempotency_key"]
        #: By when an answer is wanted, as people read it.
        self.deadline: str = message["deadline"]
        self.attempt: int = message["retry"]["attempt"]
        self.max_attempts: int = message["retry"]["max_attempts"]
        self._agent = agent

    def progress(self, text: str, **fields: object) -> None:
        """Tell how far the work is; only a builder has an event for it, others log it."""
        if self._agent.type == "builder":
            payload = {**fields, "message": text}
            self._agent.send_event(self.message, "builder.progress", payload)
        else:
            self._agent.send_log(text, level="info", **fields)

    def log(self, text: str, *, level: str = "info", **fields: object) -> None:
        """Write a line for people: debug, info, warn or error."""
        self._agent.send_log(text, level=level, **fields)

    def produced(self, path: str) -> None:
        """Tell of a file before the work is done."""
        described = artifacts.describe(self.workspace, path)
        self._agent.send_event(self.message, "artifact.produced", {}, artifacts=[described])


#: Does a command's work, `def` or `async def`.
Handler = Callable[[Command], Result | Awaitable[Result]]


class _Failure(Exception):
    """A command that cannot be done, as the orchestrator will hear of it."""

    def __init__(self, *, code: str, message: str, retryable: bool = False) -> None:
        super().__init__(message)
        self.code, self.message, self.retryable = code, message, retryable


class Agent:
    """An agent of one type: handlers by action, and a loop that answers each command once."""

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
        """Be an agent of this type, by default of the type that the orchestrator wants.

        `retryable` are exceptions of handlers after which another attempt may help; connection
        errors are among them anyway. Other runs reuse an answer only of the same `version`: by
        default the checksum of the handler's file. An empty one keeps every answer to its run.
        """
        env = os.environ if environ is None else environ
        wanted = type or env.get("ONCEWARD_AGENT", "")
        if wanted not in messages.AGENT_TYPES:
            message = f"type: {wanted!r} is no type of agent"
            fix = f"pass one of {', '.join(messages.AGENT_TYPES)}"
            raise InvalidArgument(message, fix=fix, field="type")
        #: builder, reviewer or spec_maintainer.
        self.type: str = wanted
        self.agent_id = agent_id
        self.workspace = Path(env.get("ONCEWARD_WORKSPACE") or ".").resolve()
        kept = cache_folder(wanted, self.workspace, env)
        self._clock, self._ids = clock or SystemClock(), ids or Ids()
        self.cache = ResultCache(kept, files=files or SystemFiles(), clock=self._clock)
        self.version = version
        self.run_id = env.get("ONCEWARD_RUN", "")
        self._reuse = Reuse(self.cache, self.workspace, self.run_id)
        self._calls = HandlerCalls(retryable)
        self.voice = Voice(agent_type=wanted, agent_id=agent_id, env=env, clock=self._clock)
        self._handlers: dict[str, Handler] = {}
        self._waiting = Waiting()

    def on(self, *actions: str) -> Callable[[Handler], Handler]:
        """Let the decorated function do these actions."""

        def register(handler: Handler) -> Handler:
            self._handlers.update(dict.fromkeys(actions, handler))
            return handler

        return register

    # --- the loop --------------------------------------------------------------------------------

    def run(self, stdin: BinaryIO | None = None, stdout: BinaryIO | None = None) -> None:
        """Answer commands until stdin ends; what came before its end is still done."""
        on_streams(self._run, stdin, stdout)

    def _run(self, stdin: BinaryIO, stdout: BinaryIO) -> None:
        reading = threading.Thread(target=self._waiting.fill, args=(stdin,), daemon=True)
        reading.start()
        with self._calls, self.voice.opened(stdout):
            while (line := self._waiting.next()) is not None:
                self._take(line)

    def _take(self, line: bytes | Oversized) -> None:
        """Deal with one line; whatever is in it, the loop goes on."""
        try:
            if isinstance(line, Oversized):
                problem = f"has {line.size} bytes, and may have at most {LINE_BYTES_MAX}"
                raise MessageRefused(path="line", problem=problem)
            message = messages.decode(line)
            if message["kind"] != "command":
                raise MessageRefused(path="kind", problem="must be command")
        except InvalidArgument as exc:
            self._refuse(line, exc)
        else:
            self._handle(message)

    def _refuse(self, line: bytes | Oversized, problem: InvalidArgument) -> None:
        """Answer what is no command, if it says whom to answer."""
        asked = _address(line)
        failure = _Failure(code="INVALID_COMMAND", message=problem.message)
        try:
            if asked is not None:
                self._tell(asked, self._error(failure))
                return
        except InvalidArgument:
            pass  # It does not even say in a proper way whom to answer.
        self.send_log(f"refused a message: {problem.message}", level="error")

    def _handle(self, message: Message) -> None:
        try:
            handler = self._checked(message)
        except _Failure as failure:
            self._tell(message, self._error(failure))
            return
        self.voice.show("busy", message["task_id"])
        try:
            answer = self._answer(message, handler)
        except _Failure as failure:
            answer = self._error(failure)
        finally:
            self.voice.show("ready")
        # Before the answer is out: what comes after it is a new attempt, not a duplicate.
        key = message["idempotency_key"]
        meanwhile = self._waiting.take_containing(key.encode())
        self._tell(message, answer)
        self._tell_duplicates(meanwhile, key, answer)

    def _tell_duplicates(self, lines: Sequence[bytes], key: str, answer: Answer) -> None:
        """Let those that came meanwhile for the same work hear the same, also when it failed."""
        for line in lines:
            try:
                message = messages.decode(line)
                is_same = message["idempotency_key"] == key and bool(self._checked(message))
            except (InvalidArgument, KeyError, _Failure):
                is_same = False
            if is_same:
                self._tell(message, answer)
            else:
                self._take(line)

    def _answer(self, message: Message, handler: Handler) -> Answer:
        """Return the answer to a command, from the cache or from its handler."""
        kept = self.cache.get(message["idempotency_key"], self.workspace, run=self.run_id)
        if kept is not None:
            return kept
        version = version_of(handler) if self.version is None else self.version
        try:
            answer = self._reuse.find(message, version)
            if answer is not None:
                self.send_log(f"the result of {answer.run} is reused, which began alike")
                answer = replace(answer, run=self.run_id)
            else:
                answer = self._worked(message, handler, version)
            self.cache.put(answer, self.workspace)
        except OncewardError as exc:
            said = f"the work is done, but could not be kept: {exc.message}"
            raise _Failure(code="NOT_KEPT", message=said, retryable=True) from exc
        return answer

    def _worked(self, message: Message, handler: Handler, version: str) -> Answer:
        """Let the handler do the work, and return its answer."""
        before = self._reuse.begin(message, version)
        result = self._done(message, handler)
        answer = self._described(message, result)
        read = self._read_files(result)
        basis = self._reuse.basis(message, answer, before, read) if self.run_id and version else ""
        return replace(answer, version=version, basis=basis, read=read or [])

    def _read_files(self, result: object) -> list[dict[str, Any]] | None:
        """Return the files that a result depends on; None when it does not say, or one is gone."""
        if not isinstance(result, Result) or result.read is None:
            return None
        try:
            return [artifacts.describe(self.workspace, path) for path in result.read]
        except OncewardError:
            return None

    def _done(self, message: Message, handler: Handler) -> object:
        try:
            return self._calls.call(handler, Command(message, self.workspace, self))
        except OncewardError as exc:
            raise _Failure(code=exc.code, message=exc.message, retryable=exc.retryable) from exc
        except (Exception, SystemExit) as exc:
            traceback.print_exc(file=sys.stderr)
            said = f"{type(exc).__name__}: {exc}"
            is_retryable = self._calls.is_retryable(exc)
            raise _Failure(code="HANDLER_FAILED", message=said, retryable=is_retryable) from exc

    def _checked(self, message: Message) -> Handler:
        """Return who does this, unless the command is not for us or not what its key says."""
        if message["to"]["agent_type"] != self.type:
            said = f"this is a {self.type}, not a {message['to']['agent_type']}"
            raise _Failure(code="WRONG_AGENT", message=said)
        key = idempotency_key(
            action=message["action"],
            task_id=message["task_id"],
            snapshot_id=message["version"]["snapshot_id"],
            inputs=message["inputs"],
            expected_outputs=message["expected_outputs"],
        )
        if key != message["idempotency_key"]:
            said = f"the key of this work is {key}, not {message['idempotency_key']}"
            raise _Failure(code="KEY_MISMATCH", message=said)
        handler = self._handlers.get(message["action"])
        if handler is None:
            can = ", ".join(sorted(self._handlers)) or "nothing"
            said = f"this agent does {can}, not {message['action']}"
            raise _Failure(code="UNKNOWN_ACTION", message=said)
        return handler

    def _described(self, message: Message, result: object) -> Answer:
        """Return the answer that a handler's result is, with everything it names on disk."""
        if not isinstance(result, Result):
            said = f"the handler returned a {type(result).__name__}, not a Result"
            raise _Failure(code="BAD_RESULT", message=said)
        wanted = [each["path"] for each in message["expected_outputs"] if each["required"]]
        paths = dict.fromkeys((*result.artifacts, *wanted))
        try:
            event, status = event_of(self.type, result)
            answer = Answer(
                key=message["idempotency_key"],
                snapshot_id=message["version"]["snapshot_id"],
                event=event,
                status=status,
                payload=dict(result.payload),
                artifacts=[artifacts.describe(self.workspace, path) for path in paths],
                run=self.run_id,
            )
            # A copy, which the handler cannot change any more, and without secrets: what is kept
            # must be what is told.
            sent = messages.decode(messages.encode(self._event(message, answer)))
            answer = replace(answer, payload=self.voice.redacted(sent["payload"]))
            # What cannot be sent must not be kept either.
            messages.encode(self._event(message, answer))
        except FileMissing as exc:
            raise _Failure(code="MISSING_OUTPUT", message=exc.message, retryable=True) from exc
        except (InvalidArgument, WrongPath) as exc:
            raise _Failure(code="BAD_RESULT", message=exc.message) from exc
        return answer

    def _error(self, failure: _Failure) -> Answer:
        """Return the answer that a failure is; whatever was raised, it must be possible to send."""
        said = failure.message.encode("utf-8", "backslashreplace").decode()
        payload = {
            "code": failure.code,
            "message": self.voice.cut(said),
            "retryable": failure.retryable,
        }
        return Answer(
            key="", snapshot_id="", event="error", status=None, payload=payload, artifacts=()
        )

    # --- what goes out ---------------------------------------------------------------------------

    def send_event(
        self,
        message: Message,
        event: str,
        payload: Mapping[str, Any],
        artifacts: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Tell of something on the way to the answer."""
        passing = Answer(
            key=message["idempotency_key"],
            snapshot_id=message["version"]["snapshot_id"],
            event=event,
            status=None,
            payload=self.voice.redacted(payload),
            artifacts=list(map(dict, artifacts or ())),
        )
        self.voice.say(self._event(message, passing))

    def send_log(self, text: str, *, level: str = "info", **fields: object) -> None:
        """Write a line for people, which the orchestrator keeps with the run."""
        self.voice.log(text, level=level, **fields)

    def _tell(self, message: Message, answer: Answer) -> None:
        self.voice.say(self._event(message, answer))

    def _event(self, message: Message, answer: Answer) -> Message:
        """Return an answer as it is told to whoever asked with this message."""
        return messages.event(
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


def _address(line: bytes | Oversized) -> Message | None:
    """Return whom to answer, if a refused line says so."""
    try:
        message = loads(line) if isinstance(line, bytes) else None
    except InvalidArgument:
        return None
    if not isinstance(message, dict) or message.get("kind") != "command":
        return None
    asked = {name: message.get(name) for name in ("correlation_id", "task_id")}
    return asked if all(isinstance(each, str) and each for each in asked.values()) else None
