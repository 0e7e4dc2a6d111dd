"""Receiving: the answer to a command, as opposed to noise and to protocol violations."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from onceward.agents import protocol, reply_handling
from onceward.agents.line_reader import LINE_BYTES_MAX, OversizedLine
from onceward.agents.reply_handling import PendingCommand, ReplyReceiver
from onceward.errors import AgentFailed
from onceward.system.redaction import Redactor
from tests.support.agent_messages import a_command, a_heartbeat, a_log, an_event

SECRET = "hunter2-hunter2"


class Waiting:
    """A command that is waited for, and the messages that come meanwhile."""

    def __init__(self, workspace: Path) -> None:
        self.receiver = ReplyReceiver(workspace, Redactor([SECRET]), LINE_BYTES_MAX)
        self.events: list[protocol.Message] = []
        self.logs: list[protocol.Message] = []
        self.beats = 0
        self.noise: Counter[str] = Counter()
        self.work = PendingCommand(
            command=a_command(),
            agent="builder",
            deadline=1.0,
            on_event=self.events.append,
            on_log=self.logs.append,
            on_heartbeat=self.beat,
            on_noise=self.note,
        )

    def beat(self) -> None:
        self.beats += 1

    def note(self, problem: str, example: str) -> None:
        assert SECRET not in example
        self.noise[problem] += 1

    def take(self, message: protocol.Message) -> None:
        self.receiver.take(protocol.encode(message), self.work)


@pytest.fixture
def waiting(tmp_path: Path) -> Waiting:
    return Waiting(tmp_path)


def progress(**changes: Any) -> protocol.Message:
    return an_event(**{"event": "builder.progress", "payload": {"message": "half"}, **changes})


def test_the_answer_is_found_among_other_messages(waiting: Waiting) -> None:
    """Heartbeats, logs and progress go where they belong, and the last event is the answer."""
    for message in (a_heartbeat(), a_log(), progress(), an_event()):
        waiting.take(message)
    assert (waiting.beats, len(waiting.logs), len(waiting.events)) == (1, 1, 1)
    assert waiting.work.result() == an_event()
    assert not waiting.noise


def test_h26_an_error_event_is_raised_as_it_is(waiting: Waiting) -> None:
    """Code, message and whether a retry helps are those that the agent gave."""
    payload = {"code": "NO_NETWORK", "message": "it rains", "retryable": True}
    waiting.take(an_event(event="error", payload=payload))
    with pytest.raises(AgentFailed) as caught:
        waiting.work.result()
    error = caught.value
    assert (error.code, error.message, error.retryable) == ("NO_NETWORK", "it rains", True)
    assert error.context["event"] == waiting.work.answer
    assert error.to_dict()["error"]["code"] == "NO_NETWORK"  # type: ignore[index]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (OversizedLine(300_000), "oversized line"),
        (b"hello", "broken line"),
        (b"\xff\xfe", "broken line"),
        (b"{}", "wrong shape"),
        (b"[1]", "wrong shape"),
        (b'{"kind":"log"}', "wrong shape"),
        (b'{"kind":"event","correlation_id":"corr_2"}', "wrong shape"),
        (b'{"kind":"event","correlation_id":"corr_1","event":"builder.progress"}', "wrong shape"),
        (protocol.encode(a_command()), "wrong shape"),
        (protocol.encode(an_event(correlation_id="corr_2")), "wrong correlation"),
    ],
)
def test_h27_noise_is_counted_and_ignored(
    line: bytes | OversizedLine, problem: str, waiting: Waiting
) -> None:
    """What is no message, or none for this command, changes nothing; the answer still counts."""
    waiting.receiver.take(line, waiting.work)
    assert waiting.noise == {problem: 1}
    waiting.take(an_event())
    assert waiting.work.result() == an_event()


@pytest.mark.parametrize("event", ["builder.completed", "builder.done", "error"])
def test_an_answer_that_cannot_be_read_is_not_waited_for(event: str, waiting: Waiting) -> None:
    """An event of this command that is no answer in shape fails at once: none will follow."""
    broken = b'{"kind":"event","correlation_id":"corr_1","event":"%s"}' % event.encode()
    with pytest.raises(AgentFailed) as caught:
        waiting.receiver.take(broken, waiting.work)
    assert (caught.value.code, caught.value.retryable) == ("BAD_ANSWER", True)


def odd_line(message: protocol.Message, odd: str) -> bytes:
    """Put what is odd in the place of a word."""
    return json.dumps(message).replace('"odd"', odd).encode()


@pytest.mark.parametrize("odd", ['"\\ud800"', "[" * 480 + "]" * 480])
@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("builder.completed", {"tests": {"status": "pass"}, "x": "odd"}),
        ("error", {"code": "X", "message": "m", "retryable": False, "x": "odd"}),
    ],
)
def test_h27_an_answer_that_cannot_be_recorded_is_refused(
    event: str, payload: dict[str, Any], odd: str, waiting: Waiting
) -> None:
    """Half of a surrogate pair and nesting without end are refused before anything is written."""
    with pytest.raises(AgentFailed) as caught:
        waiting.receiver.take(odd_line(an_event(event=event, payload=payload), odd), waiting.work)
    assert (caught.value.code, caught.value.retryable) == ("BAD_ANSWER", True)
    assert len(caught.value.message) < 1000
    assert waiting.work.answer is None


@pytest.mark.parametrize(
    "line",
    [
        odd_line(progress(payload={"message": "odd"}), '"\\ud800"'),
        odd_line(progress(payload={"message": "odd"}), "[" * 480 + "]" * 480),
        odd_line(progress(payload={"odd": 1}), '"\\udfff"'),
        odd_line(a_log("odd"), '"\\ud800"'),
        odd_line(a_log(fields={"x": "odd"}), "[" * 480 + "]" * 480),
        odd_line(an_event(correlation_id="other", payload={"x": "odd"}), '"\\ud800"'),
    ],
)
def test_h27_odd_lines_on_the_way_are_noise(line: bytes, waiting: Waiting) -> None:
    """What cannot be recorded is counted and ignored; the answer still counts."""
    waiting.receiver.take(line, waiting.work)
    assert waiting.noise == {"wrong shape": 1}
    waiting.take(an_event())
    assert waiting.work.result() == an_event()
    assert not waiting.events
    assert not waiting.logs


def test_what_cannot_be_read_after_the_answer_is_noise(waiting: Waiting) -> None:
    """The first answer counts, also when a second one is broken."""
    waiting.take(an_event())
    waiting.receiver.take(b'{"kind":"event","correlation_id":"corr_1"}', waiting.work)
    assert waiting.noise == {"wrong shape": 1}
    assert waiting.work.result() == an_event()


@pytest.mark.parametrize("changes", [{"task_id": "T-0043"}, {"agent_type": "reviewer"}])
def test_an_answer_for_others_is_refused(changes: dict[str, Any], waiting: Waiting) -> None:
    """The right correlation with another task or another sender is a broken answer."""
    with pytest.raises(AgentFailed) as caught:
        waiting.take(an_event(**changes))
    assert caught.value.code == "BAD_ANSWER"


@pytest.mark.parametrize(
    "message", [an_event(snapshot_id="snap-2"), progress(snapshot_id="snap-2")]
)
def test_another_version_is_an_error(message: protocol.Message, waiting: Waiting) -> None:
    """An agent that saw another snapshot did other work."""
    with pytest.raises(AgentFailed, match="snap-2, but the command is for snap-abc123") as caught:
        waiting.take(message)
    assert (caught.value.code, caught.value.retryable) == ("VERSION_MISMATCH", False)


def test_the_same_version_is_fine(waiting: Waiting) -> None:
    """An agent may say which snapshot it saw."""
    waiting.take(an_event(snapshot_id="snap-abc123"))
    assert waiting.work.answer


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "link/x", ".git/config", "state/run.json"])
@pytest.mark.parametrize("event", ["builder.completed", "artifact.produced"])
def test_h31_artifacts_outside_the_workspace_are_refused(
    path: str, event: str, waiting: Waiting, tmp_path: Path
) -> None:
    """An event that names a path leading elsewhere is refused, whether the file exists or not."""
    (tmp_path / "link").symlink_to("/tmp")
    named = [{"path": path, "sha256": "0" * 64, "size": 1}]
    with pytest.raises(AgentFailed) as caught:
        waiting.take(an_event(event=event, artifacts=named))
    assert caught.value.code == "BAD_ARTIFACT"
    assert not waiting.events


def test_h27_events_and_logs_without_end_are_cut_off(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limited number is reported, the rest is counted, and the answer still counts."""
    monkeypatch.setattr(reply_handling, "EVENTS_PER_COMMAND_MAX", 3)
    monkeypatch.setattr(reply_handling, "LOGS_PER_COMMAND_MAX", 3)
    for _ in range(5):
        waiting.take(progress())
        waiting.take(a_log())
    waiting.take(an_event())
    assert (len(waiting.events), len(waiting.logs)) == (3, 3)
    assert waiting.noise == {"too many events": 2, "too many logs": 2}
    assert waiting.work.answer


def test_what_follows_the_answer_is_noise(waiting: Waiting) -> None:
    """A command has one answer, the first."""
    waiting.take(an_event())
    waiting.take(an_event(payload={"tests": {"status": "fail"}}))
    waiting.take(progress())
    assert waiting.work.result() == an_event()
    assert waiting.noise == {"event after the answer": 2}


def test_h32_secrets_are_gone_from_everything_that_is_reported(waiting: Waiting) -> None:
    """Payloads, logs and rejections are reported without secrets; checksums and ids stay."""
    waiting.take(progress(payload={"message": f"x {SECRET}"}))
    waiting.take(a_log(f"log {SECRET}", fields={"token": SECRET}))
    waiting.take(an_event(payload={"tests": {"status": "pass"}, "note": SECRET}))
    reported = repr((waiting.events, waiting.logs, waiting.work.answer))
    assert SECRET not in reported
    assert reported.count("[redacted]") == 4
    with pytest.raises(AgentFailed) as caught:
        Waiting(Path("/")).take(
            an_event(artifacts=[{"path": f"/{SECRET}", "sha256": "0" * 64, "size": 1}])
        )
    assert SECRET not in str(caught.value)


def test_long_lines_for_people_are_cut(waiting: Waiting) -> None:
    """A log line as long as a line may be is shortened."""
    waiting.take(a_log("x" * 200_000))
    assert len(waiting.logs[0]["message"]) == reply_handling.LOG_CHARACTERS_MAX + 1
