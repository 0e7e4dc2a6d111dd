"""Kit: an agent answers each command once, however often it is asked."""

import io
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from onceward.agents import (
    Agent,
    Command,
    HandlerResult,
    approved,
    changes_requested,
    completed,
    protocol,
)
from onceward.errors import InvalidArgument, Retryable
from onceward.system import crash_points
from tests.support.agent_messages import a_command
from tests.support.agent_restarts import (
    AgentRestarts,
    Handler,
    error_of,
    lives,
    no_work,
    raising,
    without_ids,
    write_out,
)

__all__ = ["lives"]


def test_a_command_is_answered(lives: AgentRestarts) -> None:
    """The answer names the command's correlation, task and version, and describes the files."""
    (event,) = lives.ask(write_out, a_command())
    assert event["event"] == "builder.completed"
    assert event["correlation_id"] == "corr_1"
    assert event["task_id"] == "T-0042"
    assert event["observed_version"] == {"snapshot_id": "snap-abc123"}
    assert event["from"] == {"agent_type": "builder"}
    assert event["artifacts"][0]["path"] == "out.txt"
    assert event["artifacts"][0]["size"] == len("implement feature X")


def test_the_same_key_is_answered_the_same_without_work(lives: AgentRestarts) -> None:
    """In one life and in the next, only message id, correlation and time differ."""
    again = a_command(message_id="msg_9", correlation_id="corr_9")
    first, second = lives.ask(write_out, a_command(), again)
    (third,) = lives.ask(no_work, again)
    assert without_ids(first) == without_ids(second) == without_ids(third)
    assert [event["correlation_id"] for event in (first, second, third)] == [
        "corr_1",
        "corr_9",
        "corr_9",
    ]
    assert len({event["message_id"] for event in (first, second, third)}) == 3
    assert len(lives.begun) == 1


def test_other_work_is_done(lives: AgentRestarts) -> None:
    """Another round has other inputs, so it is not answered with the first round's result."""
    lives.ask(write_out, a_command(), a_command(inputs={"goal": "other", "round": 2}))
    assert len(set(lives.begun)) == 2


def test_another_run_is_answered_with_its_own_work(lives: AgentRestarts, tmp_path: Path) -> None:
    """A review of the files as they were in one run is no review of what the next run made."""
    review = a_command(agent_type="reviewer", action="review")
    (tmp_path / "code.txt").write_text("good")

    def read(command: Command) -> HandlerResult:
        is_good = (command.workspace / "code.txt").read_text() == "good"
        return approved() if is_good else changes_requested(["bad"])

    lives.env = {"ONCEWARD_RUN": "run-1"}
    (first,) = lives.ask(read, review, agent_type="reviewer")
    (tmp_path / "code.txt").write_text("malicious")
    lives.env = {"ONCEWARD_RUN": "run-2"}
    (second,) = lives.ask(read, review, agent_type="reviewer")
    assert [first["status"], second["status"]] == ["approved", "changes_requested"]
    (again,) = lives.ask(no_work, review, agent_type="reviewer")
    assert without_ids(again) == without_ids(second)


def test_h32_no_secret_is_kept_or_sent(lives: AgentRestarts, tmp_path: Path) -> None:
    """Secrets are redacted before an answer is kept, so that later answers are equal to it."""
    secret = "topsecretvalue"
    lives.env = {"MY_TOKEN": secret, "PIN_SECRET": "99887766"}

    def careless(command: Command) -> HandlerResult:
        command.progress(f"with {secret}", n=99887766)
        command.log(secret, fields=[secret])
        return completed(payload={"used": secret, "n": 99887766, "password": ["hunter2"]})

    *way, first = lives.ask(careless, a_command())
    (again,) = lives.ask(no_work, a_command())
    assert without_ids(first) == without_ids(again)
    assert (first["payload"]["used"], first["payload"]["n"]) == ("[redacted]", "[redacted]")
    kept = [each.read_text() for each in tmp_path.rglob("*.json")]
    assert len(kept) == 1
    for hidden in (secret, "99887766", "hunter2"):
        assert hidden not in f"{kept}{way}{first}{again}"


def test_h32_failures_are_reported_without_secrets(lives: AgentRestarts) -> None:
    """Neither what a handler raised nor half of a secret at the end of a long text goes out."""
    secret = "topsecretvalue"
    lives.env = {"MY_TOKEN": secret}
    (event,) = lives.ask(raising(ValueError("x" * 7980 + secret)), a_command())
    assert event["payload"]["code"] == "HANDLER_FAILED"
    assert "topse" not in event["payload"]["message"]


def test_h32_what_grows_too_big_without_its_secrets_is_refused(lives: AgentRestarts) -> None:
    """What stands for a secret may be longer, and then the answer no longer fits into a line."""
    lives.env = {"MY_TOKEN": "abcdef"}
    handler: Handler = lambda _: completed(payload={"x": "abcdef" * 40_000})  # noqa: E731
    assert error_of(lives.ask(handler, a_command())) == ("BAD_RESULT", False)


def test_lost_artifacts_are_made_again(lives: AgentRestarts, tmp_path: Path) -> None:
    """A kept answer whose file was changed does not count."""
    lives.ask(write_out, a_command())
    (tmp_path / "out.txt").write_text("changed")
    (event,) = lives.ask(write_out, a_command())
    assert event["event"] == "builder.completed"
    assert (tmp_path / "out.txt").read_text() == "implement feature X"
    assert len(lives.begun) == 2


def test_commands_for_work_at_hand_are_answered_once_it_is_done(lives: AgentRestarts) -> None:
    """Duplicates that come while a command is at work hear its outcome, also when it fails."""
    come = threading.Event()

    def slow(_: Command) -> HandlerResult:
        assert come.wait(60)
        raise Retryable

    duplicates = [a_command(correlation_id=f"corr_{n}") for n in range(3)]
    reader, writer = os.pipe()
    out = io.BytesIO()
    agent = lives.agent(slow)
    fill = agent._stdin_lines._add

    def noticed(lines: Any, *, is_closed: bool = False) -> None:
        fill(lines, is_closed=is_closed)
        if is_closed:
            come.set()

    agent._stdin_lines._add = noticed  # type: ignore[method-assign]
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(b"".join(map(protocol.encode, duplicates)))
    with os.fdopen(reader, "rb", buffering=0) as stdin:
        agent.run(stdin, out)
    said = [protocol.decode(line) for line in out.getvalue().splitlines()]
    errors = [each for each in said if each["kind"] == "event"]
    assert [event["correlation_id"] for event in errors] == ["corr_0", "corr_1", "corr_2"]
    assert {event["payload"]["code"] for event in errors} == {"RETRYABLE"}
    assert len(lives.begun) == 1


def test_progress_logs_and_artifacts_are_sent_on_the_way(lives: AgentRestarts) -> None:
    """A handler can speak before it is done; a reviewer's progress is a log."""

    def talking(command: Command) -> HandlerResult:
        command.progress("half", percent=50)
        command.log("careful", level="warn", n=1)
        (command.workspace / "a.txt").write_text("a")
        command.produced("a.txt")
        return completed() if command.message["to"]["agent_type"] == "builder" else approved()

    progress, log, produced, _ = lives.ask(talking, a_command())
    assert progress["payload"] == {"message": "half", "percent": 50}
    assert (log["level"], log["message"], log["fields"]) == ("warn", "careful", {"n": 1})
    assert produced["artifacts"][0]["path"] == "a.txt"
    review = a_command(agent_type="reviewer", action="review")
    said = lives.ask(talking, review, agent_type="reviewer")
    assert [each["kind"] for each in said] == ["log", "log", "event", "event"]


def test_a_kept_answer_cannot_be_changed_afterwards(lives: AgentRestarts) -> None:
    """What a handler does later to the payload it returned changes no answer."""
    comments = [["first"]]

    def handler(_: Command) -> HandlerResult:
        return changes_requested(comments)

    review = a_command(agent_type="reviewer", action="review")
    agent = lives.agent(handler, "reviewer")
    agent.run(io.BytesIO(protocol.encode(review)), io.BytesIO())
    comments[0].append("second")
    answer = agent.cache.get(review["idempotency_key"], lives.workspace)
    assert answer
    assert answer.payload == {"comments": [["first"]]}


def test_an_orchestrator_that_is_gone_does_not_undo_the_work(lives: AgentRestarts) -> None:
    """The running command is finished and its answer kept."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb", buffering=0) as out:
        lives.agent(write_out).run(io.BytesIO(protocol.encode(a_command())), out)
    (event,) = lives.ask(no_work, a_command())
    assert event["event"] == "builder.completed"


@pytest.mark.parametrize(("point", "begun"), [("before", 2), ("after", 1)])
def test_a_crash_redoes_only_what_was_not_kept(
    point: str, begun: int, lives: AgentRestarts
) -> None:
    """A crash before the answer is kept repeats the work; one before it is sent does not."""
    crash_points.arm(f"agents.cache.{point}_store:1:raise")
    try:
        with pytest.raises(crash_points.Crashed):
            lives.ask(write_out, a_command())
    finally:
        crash_points.arm(None)
    (event,) = lives.ask(write_out, a_command())
    assert event["event"] == "builder.completed"
    assert len(lives.begun) == begun


def test_a_full_disk_is_reported(lives: AgentRestarts, tmp_path: Path) -> None:
    """Work whose answer cannot be kept is not reported as done: a retry might do it twice."""
    (tmp_path / "state").write_text("in the way")
    assert error_of(lives.ask(write_out, a_command())) == ("NOT_KEPT", True)


def test_heartbeats_say_what_the_agent_is_at(lives: AgentRestarts) -> None:
    """Numbers rise by one, and the states follow one another."""
    beaten = threading.Event()
    out = io.BytesIO()

    def waits(_: Command) -> HandlerResult:
        assert beaten.wait(60)
        return completed()

    agent = lives.agent(waits)
    agent.writer.heartbeat_seconds = 0.01
    beat = agent.writer.send_heartbeat

    def noticed() -> None:
        beat()
        if b'"busy"' in out.getvalue():
            beaten.set()

    agent.writer.send_heartbeat = noticed  # type: ignore[method-assign]
    agent.run(io.BytesIO(protocol.encode(a_command())), out)
    said = [protocol.decode(line) for line in out.getvalue().splitlines()]
    beats = [each for each in said if each["kind"] == "heartbeat"]
    assert [each["seq"] for each in beats] == list(range(1, len(beats) + 1))
    states = list(dict.fromkeys(each["status"] for each in beats))
    assert states[:3] == ["starting", "ready", "busy"]
    assert states[-1] == "stopping"
    assert {each.get("task_id") for each in beats if each["status"] == "busy"} == {"T-0042"}
    assert beats[0]["pid"] == os.getpid()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2.5", 2.5), ("", 10), ("soon", 10), ("-1", 10), ("inf", 10), ("nan", 10)],
)
def test_the_heartbeat_comes_from_the_environment(text: str, seconds: float) -> None:
    """A number of seconds counts; anything else means the default."""
    agent = Agent("builder", environ={"ONCEWARD_HEARTBEAT_SECONDS": text})
    assert agent.writer.heartbeat_seconds == seconds


def test_the_type_comes_from_the_environment() -> None:
    """An agent is of the type that the orchestrator wants, and of no unknown one."""
    assert Agent(environ={"ONCEWARD_AGENT": "reviewer"}).type == "reviewer"
    for unknown in ({}, {"ONCEWARD_AGENT": "painter"}):
        with pytest.raises(InvalidArgument, match="type: must be one of builder"):
            Agent(environ=unknown)
