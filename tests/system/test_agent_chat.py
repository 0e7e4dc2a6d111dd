"""Chat agents as processes at the ends of pipes: of the kit, around a program, and scripted."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from onceward.agents import chat_messages
from onceward.errors import InvalidArgument
from tests.support.agent_messages import ODD_TEXTS, a_delivery
from tests.support.agent_processes import ANSWER_SECONDS, Piped, is_running, piped
from tests.support.waiting import until

KIT = (sys.executable, str(Path(__file__).parents[1] / "support" / "chat_kit_agent.py"))
AGENT = (sys.executable, "-m", "onceward", "agent")


class Talking(Piped):
    """A chat agent at the other end of two pipes."""

    def hand(self, *said: str, **fields: Any) -> None:
        self.write(a_delivery(*said, **fields))

    def next(self) -> dict[str, Any] | None:
        """Return the next message that is no heartbeat; None at the end."""
        while (line := self.lines.get(timeout=ANSWER_SECONDS)) is not None:
            try:
                found = chat_messages.decode(line.rstrip(b"\n"))
            except InvalidArgument:
                self.noise.append(line)
                continue
            if found["kind"] != "heartbeat":
                return found
        return None

    def said(self) -> list[Any]:
        """Return texts up to the next `done` or `error`, and that."""
        found: list[Any] = []
        while (message := self.next()) is not None:
            if message["kind"] != "output":
                return [*found, message]
            found.append(message["text"])
        return found


@contextmanager
def talking(workspace: Path, *words: str | Path, **environ: str) -> Iterator[Talking]:
    """Start a chat agent in a workspace, as a dispatcher would."""
    env = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "ONCEWARD_AGENT": "chat",
        "ONCEWARD_GROUP": "garden",
        "ONCEWARD_WORKSPACE": str(workspace),
        **environ,
    }
    with piped(words, workspace, env, workspace / "stderr.log") as process:
        yield Talking(process)


def scripted(workspace: Path, scenario: Any) -> Any:
    path = workspace / "scenario.json"
    path.write_text(json.dumps(scenario))
    return talking(workspace, *AGENT, "script", path, "--type", "chat")


# --- the kit -------------------------------------------------------------------------------------


def test_h45_the_kit_gives_texts_back_unchanged(tmp_path: Path) -> None:
    """Through two pipes, and however long a text becomes on the way."""
    with talking(tmp_path, *KIT) as agent:
        for number, text in enumerate((*ODD_TEXTS, "\0" * 131_072), start=1):
            agent.hand(text, first=number)
            assert agent.said() == [text, chat_messages.done(number)]
        assert agent.end() == 0
        assert agent.noise == []
    log = (tmp_path / "stderr.log").read_text()
    assert "printed by the handler" in log
    assert "printed by a program" in log
    assert "EOFError" in log


def test_follow_ups_are_piped_into_a_call(tmp_path: Path) -> None:
    """What comes while the handler works is taken by it, or is its next call; nothing is lost."""
    os.mkfifo(tmp_path / "gate")
    with talking(tmp_path, *KIT) as agent:
        agent.hand("wait")
        assert agent.next() == chat_messages.output("waiting", upto=1)
        agent.hand("and", "this", first=2, is_follow_up=True)
        agent.hand("too", first=4, is_follow_up=True)
        (tmp_path / "gate").open("w").close()
        upto, said = 0, []
        while upto < 4:
            *texts, done = agent.said()
            said += texts
            upto = done["upto"]
        # How much was here when it looked is the pipe's business; that all is handled is not.
        assert " ".join(said) in ("and this too", "nothing came this too")
        assert agent.end() == 0


def test_a_failure_ends_the_agent_and_what_it_holds(tmp_path: Path) -> None:
    """Exit code 0 after the word; later messages are left for the next process."""
    with talking(tmp_path, *KIT) as agent:
        agent.hand("fail")
        agent.hand("never", first=2, is_follow_up=True)
        (error,) = agent.said()
        assert (error["kind"], error["code"], error["upto"]) == ("error", "HANDLER_FAILED", 1)
        assert error["message"] == "ValueError: fail"
        assert agent.next() is None
        assert agent.process.wait(ANSWER_SECONDS) == 0


def test_an_agent_that_is_killed_has_said_what_it_said(tmp_path: Path) -> None:
    """A reply is on its way when `reply` returns; no word of its end follows."""
    with talking(tmp_path, *KIT) as agent:
        agent.hand("die")
        assert agent.said() == ["farewell"]
        assert agent.process.wait(ANSWER_SECONDS) == -signal.SIGKILL


# --- exec ----------------------------------------------------------------------------------------

KEEPING = """
import sys
said = sys.stdin.buffer.read()
open(f"got-{len(said)}", "wb").write(said)
print("heard", len(said))
"""


def test_h45_a_program_becomes_a_chat_agent(tmp_path: Path) -> None:
    """Texts on its standard input are as people typed them; what it prints is the answer."""
    words = ("exec", "--type", "chat", "--prompt", "{text}", "--", sys.executable, "-c", KEEPING)
    with talking(tmp_path, *AGENT, *words) as agent:
        for number, text in enumerate(ODD_TEXTS, start=1):
            agent.hand(text, first=number)
            size = len(text.encode())
            assert agent.said() == [f"heard {size}", chat_messages.done(number)]
            assert (tmp_path / f"got-{size}").read_bytes() == text.encode()
        assert agent.end() == 0


def test_what_is_said_while_a_program_runs_is_its_next_prompt(tmp_path: Path) -> None:
    """All of it in one run, and done by one number."""
    os.mkfifo(tmp_path / "gate")
    program = "import sys; said = sys.stdin.read(); open('begun', 'w'); open('gate'); print(said)"
    options = ("--type", "chat", "--prompt", "{messages}", "--", sys.executable, "-c", program)
    with talking(tmp_path, *AGENT, "exec", *options) as agent:
        agent.hand("one")
        until((tmp_path / "begun").exists)
        agent.hand("two", first=2, is_follow_up=True)
        agent.hand("three", first=3, is_follow_up=True)
        assert agent.process.stdin is not None
        agent.process.stdin.close()
        # Nothing tells when the pipe is read, but that it is empty does.
        until(lambda: _is_drained(agent.process.pid))
        (tmp_path / "gate").open("w").close()
        assert agent.said() == ["ann: one", chat_messages.done(1)]
        (tmp_path / "gate").open("w").close()
        assert agent.said() == ["ann: two\nann: three", chat_messages.done(3)]
        assert agent.process.wait(ANSWER_SECONDS) == 0


def _is_drained(pid: int) -> bool:
    """Whether the thread that reads stdin has ended, and so read all there was."""
    # The main one, and the one that beats.
    return len(list(Path(f"/proc/{pid}/task").iterdir())) == 2


def test_a_program_does_not_outlive_its_chat_agent(tmp_path: Path) -> None:
    """Not even when the agent alone is killed."""
    program = "import os, time; open('pid', 'w').write(f'{os.getpid()}.'); time.sleep(100)"
    words = (*AGENT, "exec", "--type", "chat", "--", sys.executable, "-c", program)
    pid = tmp_path / "pid"
    with talking(tmp_path, *words) as agent:
        agent.hand("hello")
        until(lambda: pid.exists() and pid.read_text().endswith("."))
        agent.process.kill()
        until(lambda: not is_running(int(pid.read_text()[:-1])))


@pytest.mark.parametrize(("code", "named"), [(1, "PROGRAM_FAILED"), (75, "PROGRAM_INTERRUPTED")])
def test_an_exit_code_is_an_error(tmp_path: Path, code: int, named: str) -> None:
    """What was printed before is not said."""
    line = ("--", "/bin/sh", "-c", f"echo half of it; exit {code}")
    with talking(tmp_path, *AGENT, "exec", "--type", "chat", *line) as agent:
        agent.hand("hello")
        (error,) = agent.said()
        assert (error["code"], error["retryable"]) == (named, True)
        assert agent.process.wait(ANSWER_SECONDS) == 0


# --- scripts -------------------------------------------------------------------------------------


def test_a_script_plays_all_that_can_go_wrong(tmp_path: Path) -> None:
    """Life after life: killed after output, failing, leaving with a code, and well at last."""
    rules = [
        {"when": "kill", "do": [{"reply": "a"}, {"crash": "kill", "once": True}, {"echo": True}]},
        {"when": "leave", "do": [{"crash": "exit:3"}]},
        {"do": [{"fail": "no", "once": True}, {"garbage": "???"}, {"echo": True}]},
    ]
    scenario = {"chat": {"rules": rules}, "count": "counted.txt"}
    with scripted(tmp_path, scenario) as agent:
        agent.hand("kill")
        assert agent.said() == ["a"]
        assert agent.process.wait(ANSWER_SECONDS) == -signal.SIGKILL
    with scripted(tmp_path, scenario) as agent:
        agent.hand("kill")
        assert agent.said() == ["a", "kill", chat_messages.done(1)]
        agent.hand(*ODD_TEXTS, first=2)
        (error,) = agent.said()
        assert (error["code"], error["retryable"]) == ("SCRIPTED_FAILURE", True)
        assert agent.process.wait(ANSWER_SECONDS) == 0
    with scripted(tmp_path, scenario) as agent:
        agent.hand(*ODD_TEXTS, first=2)
        assert agent.said() == [*ODD_TEXTS, chat_messages.done(len(ODD_TEXTS) + 1)]
        assert agent.noise == [b"???\n"]
        agent.hand("leave", first=20)
        assert agent.said() == []
        assert agent.process.wait(ANSWER_SECONDS) == 3
    counted = (tmp_path / "counted.txt").read_text().splitlines()
    assert counted[:3] == ["started m1", "started m1", "completed m1"]
    assert counted[-1] == "started m20"
    assert [counted.count(f"{word} m3") for word in ("started", "completed")] == [2, 1]


def test_a_script_can_ignore_people_with_a_beating_heart(tmp_path: Path) -> None:
    """Neither a word nor an end, not even at the end of its stdin; only a signal helps."""
    with scripted(tmp_path, {"chat": [{"reply": "hm"}, {"ignore": True}]}) as agent:
        agent.hand("hello")
        assert agent.next() == chat_messages.output("hm", upto=1)
        assert agent.process.stdin is not None
        agent.process.stdin.close()
        with pytest.raises(subprocess.TimeoutExpired):
            agent.process.wait(0.5)
        agent.process.terminate()
        assert agent.process.wait(ANSWER_SECONDS) == -signal.SIGTERM
