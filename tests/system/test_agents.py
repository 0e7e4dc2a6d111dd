"""Agents as real processes: whatever one does, the supervisor neither hangs nor grows."""

import os
import resource
import signal
import threading
import time

import pytest

from onceward.agents import agent_process, line_reader, reply_handling
from onceward.agents.supervisor import AgentSpec
from onceward.errors import AgentFailed, InvalidArgument
from tests.support.agent_messages import a_command
from tests.support.hostile_runs import SECRET, TIMES, Run, is_alive, run

__all__ = ["run"]


@pytest.mark.parametrize(
    ("mode", "end"),
    [
        ("die_first", {"signal": 9, "reason": "it ended without an answer"}),
        ("exit_first", {"code": 0, "reason": "it ended without an answer"}),
        ("grandchild_first", {"code": 0, "reason": "it ended without an answer"}),
        ("deaf_first", {"signal": 9, "reason": "it closed its stdin"}),
        ("closes_stdout_first", {"signal": 9}),
    ],
)
def test_h27_an_agent_that_is_gone_is_started_again(
    mode: str, end: dict[str, object], run: Run
) -> None:
    """Killed, ended without an answer, deaf or dumb: the next life gets the same command."""
    # More than a pipe takes, so that a missing reader shows.
    big = a_command(inputs={"goal": "x" * 200_000})
    for times in TIMES:
        run.begin_again(times)
        # Only one that closed its stdout must be waited for.
        hasty = {"start_seconds": 2.0 * times, "heartbeats_missed_max": 8 * times}
        limits = {**hasty, "restarts_max": 50} if mode == "closes_stdout_first" else {}
        answer = run.call(mode, command=big, **limits)
        if answer["payload"]["life"] == 2:
            break
    assert answer["payload"]["life"] == 2
    assert run.kinds() == ["agent.started", "agent.exited", "agent.restarting", "agent.started"]
    (exited,) = run.of("agent.exited")
    assert exited.items() >= end.items()
    (restart,) = run.of("agent.restarting")
    assert restart["restart"] == 1
    assert restart["delay_s"] == 0.0
    first, second = run.of("agent.started")
    assert first["pid"] != second["pid"]
    assert second["started_ticks"] >= first["started_ticks"]


@pytest.mark.parametrize("mode", ["silent_first", "stop_first"])
def test_h27_a_silent_agent_is_started_again(mode: str, run: Run) -> None:
    """An agent that never gives a sign of life, or is frozen, is ended and replaced."""

    def is_replaced_once(times: int) -> bool:
        run.begin_again(times)
        answer = run.call(
            mode, start_seconds=1.5 * times, heartbeats_missed_max=5 * times, restarts_max=50
        )
        for exited in run.of("agent.exited"):
            assert exited["signal"] == signal.SIGKILL
            assert exited["reason"].startswith("no heartbeat")
        return (answer["payload"]["life"], len(run.of("agent.exited"))) == (2, 1)

    assert any(map(is_replaced_once, TIMES))


def test_a_frozen_agent_is_noticed_by_its_missing_heartbeats(run: Run) -> None:
    """An agent that was alive and stops beating is replaced after the heartbeats it may miss."""

    def is_replaced_once(times: int) -> bool:
        run.begin_again(times)
        supervisor = run.supervisor("good", heartbeats_missed_max=8 * times, restarts_max=50)
        supervisor.call(a_command(), on_event=run.events.append)
        os.kill(run.of("agent.started")[-1]["pid"], signal.SIGSTOP)
        answer = supervisor.call(a_command(correlation_id="c2"), on_event=run.events.append)
        assert answer["payload"]["life"] >= 2
        return bool(answer["payload"]["life"] == 2)

    assert any(map(is_replaced_once, TIMES))


def test_h27_restarts_have_an_end(run: Run) -> None:
    """An agent that dies every time fails the command for good."""
    error = run.fails("die")
    assert (error.code, error.retryable) == ("AGENT_DIED", False)
    assert [each["restart"] for each in run.of("agent.restarting")] == [1, 2]
    assert len(run.of("agent.exited")) == 3
    assert "signal 9" in error.message


def test_an_answer_counts_though_its_agent_died(run: Run) -> None:
    """What an agent said before its death is heard, and nothing is done again."""
    supervisor = run.supervisor("answer_and_die")
    for number in range(3):
        command = a_command(correlation_id=f"corr_{number}")
        answer = supervisor.call(command, on_event=run.events.append)
        assert answer["payload"]["life"] == number + 1


def test_an_agent_that_ends_well_between_commands_is_no_failure(run: Run) -> None:
    """One that answers and leaves is started again when it is needed, as often as that is."""
    supervisor = run.supervisor("good", restarts_max=0)
    for number in range(3):
        supervisor.call(a_command(correlation_id=f"corr_{number}"), on_event=run.events.append)
        standing = supervisor._slots["builder"].process
        assert standing
        standing.close_stdin()
        assert standing.wait(60)
    assert run.of("agent.restarting") == []


def test_h26_an_error_event_ends_the_command(run: Run) -> None:
    """Nothing is waited for after an error, and the agent stands ready for the next command."""
    error = run.fails("error")
    assert (error.code, error.message, error.retryable) == ("NO_LUCK", "not today", True)
    assert run.kinds() == ["agent.started"]


def test_h27_the_deadline_ends_the_whole_group(run: Run) -> None:
    """At the deadline, the agent and all that it started are gone before the failure is known."""
    for times in TIMES:
        run.begin_again(times)
        error = run.fails("slow_group", timeout_seconds={"implement": 1.0 * times})
        assert (error.code, error.retryable) == ("TIMEOUT", True)
        (exited,) = run.of("agent.exited")
        assert (exited["signal"], exited["reason"]) == (signal.SIGKILL, "deadline")
        if run.has_child():
            break
    assert not is_alive(run.child())


def test_a_command_after_a_deadline_gets_a_new_agent(run: Run) -> None:
    """The orchestrator may try again; that is a restart."""
    for times in TIMES:
        run.begin_again(times)
        limits = {"implement": 0.5 * times, "review": 120.0}
        supervisor = run.supervisor("slow_first", timeout_seconds=limits)
        with pytest.raises(AgentFailed, match="did not answer"):
            supervisor.call(a_command(), on_event=run.events.append)
        # It must have noted that it lived, or the next one is the first.
        if (run.workspace / "lives").exists():
            break
    answer = supervisor.call(a_command(action="review"), on_event=run.events.append)
    assert answer["payload"]["life"] == 2
    assert len(run.of("agent.restarting")) == 1


def test_h27_a_flood_of_logs_hides_no_answer(run: Run) -> None:
    """Lines as fast as a pipe takes them are dropped and counted, and the answer comes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = run.call("flood")
    assert answer["payload"]["life"] == 1
    assert run.noise()["too many lines"] > line_reader.LINES_WAITING_MAX
    assert len(run.of("agent.log")) == reply_handling.LOGS_PER_COMMAND_MAX
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


def test_h27_a_flood_does_not_outlast_the_deadline(run: Run) -> None:
    """An agent that only floods is ended in time, with the process that floods."""
    for times in TIMES:
        run.begin_again(times)
        error = run.fails("flood_forever", timeout_seconds={"implement": 1.5 * times})
        assert error.code == "TIMEOUT"
        if run.has_child():
            break
    assert not is_alive(run.child())


def test_h27_a_flood_of_progress_hides_no_answer(run: Run) -> None:
    """Events of the command are reported up to a limit, and none of them costs the answer."""
    answer = run.call("progress")
    assert answer["event"] == "builder.completed"
    assert len(run.events) == reply_handling.EVENTS_PER_COMMAND_MAX
    noise = run.noise()
    # A machine that has much else to do reads late; what it did not keep is counted too.
    late, untold = noise.pop("too many lines", 0), noise.pop("too many events")
    assert not noise
    assert 0 <= 20_000 - reply_handling.EVENTS_PER_COMMAND_MAX - untold <= late


def test_h27_a_line_without_end_takes_no_memory(run: Run) -> None:
    """Bytes that never become a line are thrown away until the agent is ended."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for times in TIMES:
        run.begin_again(times)
        error = run.fails("endless_line", timeout_seconds={"implement": 1.0 * times})
        assert error.code == "TIMEOUT"
        if run.noise():
            break
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024
    assert run.noise() == {"oversized line": 1}


def test_h27_a_flood_of_stderr_fills_no_disk(run: Run) -> None:
    """What is written for people is kept up to a limit, and never holds the agent up."""
    run.call("stderr")
    log = run.workspace / "logs" / "builder" / "run-1.log"
    assert log.stat().st_size <= agent_process.LOG_BYTES_MAX + 100
    assert log.stat().st_mode & 0o777 == 0o600
    content = log.read_bytes()
    assert b"[a line of 100001 bytes is not kept]" in content
    assert content.endswith(b"[this log is full; nothing more is kept]\n")


def test_h27_garbage_is_reported_once_with_counts(run: Run) -> None:
    """Broken, oversized and misdirected lines are counted, and the answer after them is heard."""
    assert run.call("noise")["event"] == "builder.completed"
    assert run.noise() == {
        "broken line": 4,
        "wrong shape": 2,
        "oversized line": 1,
        "wrong correlation": 1,
    }


def test_h27_an_answer_that_is_too_big_is_named_in_the_failure(run: Run) -> None:
    """The error of the failed wait names what came instead."""
    for times in TIMES:
        run.begin_again(times)
        error = run.fails("too_big", timeout_seconds={"implement": 1.0 * times})
        assert error.code == "TIMEOUT"
        if run.noise():
            break
    assert "oversized line (1)" in error.message


@pytest.mark.parametrize(
    ("mode", "code"),
    [
        ("wrong_shape", "BAD_ANSWER"),
        ("wrong_version", "VERSION_MISMATCH"),
        ("outside", "BAD_ARTIFACT"),
    ],
)
def test_h31_answers_that_break_the_rules_are_refused(mode: str, code: str, run: Run) -> None:
    """They are refused, not waited for until the deadline: that would be a timeout."""
    assert run.fails(mode).code == code


def test_an_agent_that_reads_nothing_does_not_block_the_caller(run: Run) -> None:
    """A command that does not fit into the pipe waits there until the deadline, not longer."""
    big = a_command(inputs={"goal": "x" * 200_000})
    error = run.fails("not_reading", command=big, timeout_seconds={"implement": 1.0})
    assert error.code == "TIMEOUT"


def test_a_big_command_arrives_whole(run: Run) -> None:
    """A command of nearly a whole line is taken in pieces."""
    assert run.call("good", command=a_command(inputs={"goal": "x" * 250_000}))


def test_h27_a_grandchild_that_left_does_not_delay_the_restart(run: Run) -> None:
    """A process that left the group and keeps the pipes open does not delay the restart."""
    try:
        assert run.call("grandchild_leaves_first")["payload"]["life"] == 2
        assert is_alive(run.child())
    finally:
        os.kill(run.child(), signal.SIGKILL)


def test_an_agent_that_ignores_the_end_is_ended(run: Run) -> None:
    """Stopping waits for a good end, and then makes one."""
    supervisor = run.supervisor("ignores_eof")
    supervisor.call(a_command(), on_event=run.events.append)
    supervisor.stop()
    (exited,) = run.of("agent.exited")
    assert (exited["signal"], exited["reason"]) == (signal.SIGKILL, "stopped")


def test_stopping_lets_an_agent_end_by_itself(run: Run) -> None:
    """An agent that sees the end of stdin ends well, and a second stop has no effect."""
    supervisor = run.supervisor("good")
    supervisor.call(a_command(), on_event=run.events.append)
    supervisor.stop()
    supervisor.stop()
    (exited,) = run.of("agent.exited")
    assert (exited["code"], exited["reason"]) == (0, "stopped")
    with pytest.raises(AgentFailed) as caught:
        supervisor.call(a_command(), on_event=run.events.append)
    assert caught.value.code == "STOPPED"


def test_a_call_can_be_interrupted(run: Run) -> None:
    """From a signal handler: the call ends soon, and the agent is still there to be stopped."""
    supervisor = run.supervisor("slow")
    kept = signal.signal(signal.SIGALRM, lambda *_: supervisor.interrupt())

    def interrupt() -> None:
        while not run.of("agent.started"):
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGALRM)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with pytest.raises(AgentFailed) as caught:
            supervisor.call(a_command(), on_event=run.events.append)
    finally:
        signal.signal(signal.SIGALRM, kept)
    assert (caught.value.code, caught.value.retryable) == ("STOPPED", True)
    assert is_alive(run.of("agent.started")[0]["pid"])


def test_h32_secrets_reach_neither_log_nor_callbacks(run: Run) -> None:
    """Whatever way a secret takes out of an agent, it is redacted."""
    answer = run.call("secrets")
    run.supervisors[0].stop()
    log = (run.workspace / "logs" / "builder" / "run-1.log").read_text()
    assert SECRET not in repr((answer, run.logged, run.events)) + log
    assert answer["payload"]["note"] == "it is [redacted]"
    assert "stderr [redacted]" in log
    assert "log [redacted]" in log


def test_a_program_that_cannot_be_started_is_named(run: Run) -> None:
    """A command line that leads nowhere fails at once, with what to do."""
    missing = AgentSpec(type="builder", command=("./no-such-program",))
    supervisor = run.supervisor("good")
    supervisor._slots["builder"].spec = missing
    with pytest.raises(AgentFailed, match="no-such-program") as caught:
        supervisor.call(a_command(), on_event=run.events.append)
    assert (caught.value.code, caught.value.retryable) == ("AGENT_NOT_STARTED", False)
    assert "onceward.json" in caught.value.fix


def test_a_command_that_is_too_big_starts_no_agent(run: Run) -> None:
    """A command that fits into no line fails for good, with its size and the limit."""
    error = run.fails("good", command=a_command(inputs={"goal": "x" * 300_000}))
    assert (error.code, error.retryable) == ("COMMAND_TOO_BIG", False)
    assert "300" in error.message
    assert "262144" in error.message
    assert error.fix
    assert run.logged == []


def test_invalid_commands_start_no_agent(run: Run) -> None:
    """What the schema refuses, or no agent is configured for, is not sent."""
    supervisor = run.supervisor("good")
    with pytest.raises(InvalidArgument):
        supervisor.call(a_command() | {"priority": "high"}, on_event=run.events.append)
    with pytest.raises(AgentFailed) as caught:
        supervisor.call(a_command(agent_type="reviewer"), on_event=run.events.append)
    assert caught.value.code == "NO_AGENT"
    assert run.logged == []
