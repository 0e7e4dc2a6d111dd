"""Chat exec: what a program gets, and what its end means for the messages it was run for."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from onceward.agents import chat_messages
from onceward.agents.chat_exec import ChatExecOptions, chat_exec_agent
from onceward.agents.prompts import chat_placeholders, chat_prompt
from onceward.errors import InvalidArgument
from tests.support.agent_messages import ODD_TEXTS, a_delivery, a_message

ECHO = "import sys; sys.stdout.write(sys.stdin.read())"


def ask(
    workspace: Path, program: str | tuple[str, ...], *deliveries: bytes, **fields: Any
) -> list[dict[str, Any]]:
    """Answer in this process, the program being a real one, and return all but heartbeats."""
    line = (sys.executable, "-c", program) if isinstance(program, str) else program
    wrapping = ChatExecOptions(program=line, **fields)
    environ = {"ONCEWARD_WORKSPACE": str(workspace), "PATH": "/usr/bin:/bin"}
    output = io.BytesIO()
    asked = io.BytesIO(b"".join(deliveries or (a_delivery("hello"),)))
    chat_exec_agent(wrapping, environ=environ).run(asked, output)
    found = [chat_messages.decode(line) for line in output.getvalue().splitlines()]
    return [each for each in found if each["kind"] != "heartbeat"]


def test_what_it_prints_is_the_answer(tmp_path: Path) -> None:
    """Without colours and empty lines around it; what goes to stderr is for the log."""
    program = r"import sys; print('\n\n  \x1b[31mred\x1b[0m\n\n  tea \n'); sys.stderr.write('x')"
    assert ask(tmp_path, program) == [
        chat_messages.output("  red\n\n  tea", upto=1),
        chat_messages.done(1),
    ]


@pytest.mark.parametrize("program", ["pass", "print()"])
def test_nothing_printed_is_no_answer(tmp_path: Path, program: str) -> None:
    """The messages are done all the same."""
    assert ask(tmp_path, program) == [chat_messages.done(1)]


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_h45_texts_reach_the_program_unchanged(tmp_path: Path, text: str) -> None:
    """Byte for byte on its standard input, whatever a template would make of it."""
    program = "import sys; open('got', 'wb').write(sys.stdin.buffer.read())"
    ask(tmp_path, program, a_delivery(text), template="{text}")
    assert (tmp_path / "got").read_bytes() == text.encode()


def test_a_nul_does_not_stop_an_argument(tmp_path: Path) -> None:
    """No argument can hold one, so another character stands for it."""
    program = "import sys; print(ascii(sys.argv[1:]), repr(sys.stdin.read()))"
    said, _ = ask(tmp_path, program, a_delivery("a\0b"), template="{text}", is_argument=True)
    assert said["text"] == r"['a\ufffdb'] ''"


def test_the_program_knows_where_it_is(tmp_path: Path) -> None:
    """In the workspace, with the names of group and run."""
    program = (
        "import os; print(os.getcwd(), os.environ['ONCEWARD_GROUP'], os.environ['ONCEWARD_RUN'])"
    )
    said, _ = ask(tmp_path, program)
    assert said["text"] == f"{tmp_path} garden run-1"


@pytest.mark.parametrize(
    ("program", "seconds", "code", "says"),
    [
        ("import sys; print('no idea'); sys.exit(3)", 60, "PROGRAM_FAILED", "code 3: no idea"),
        ("import sys; sys.exit(75)", 60, "PROGRAM_INTERRUPTED", "exit code 75"),
        ("import os; os.kill(os.getpid(), 9)", 60, "PROGRAM_INTERRUPTED", "SIGKILL"),
        ("import time; time.sleep(600)", 1, "TIMED_OUT", "was killed after 1 s, its timeout"),
    ],
)
def test_a_program_that_fails_has_said_nothing(
    tmp_path: Path, program: str, seconds: float, code: str, says: str
) -> None:
    """It can be tried again, whatever it printed; and no later message is answered."""
    (error,) = ask(tmp_path, program, a_delivery("hello"), seconds=seconds)
    assert (error["kind"], error["code"], error["retryable"]) == ("error", code, True)
    assert says in error["message"]


def test_a_program_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    """The name is in the message, and no retry helps."""
    (error,) = ask(tmp_path, ("no-such-program",))
    assert (error["code"], error["retryable"]) == ("PROGRAM_REFUSED", False)
    assert "no-such-program" in error["message"]


def test_of_too_long_an_answer_the_end_is_said(tmp_path: Path) -> None:
    """Marked as cut, and cut between characters."""
    said, done = ask(tmp_path, "print('ä' * 70_000 + 'end')")
    assert said["text"].startswith("…ä")
    assert said["text"].endswith("äend")
    assert 131_000 < len(said["text"].encode()) <= chat_messages.TEXT_BYTES_MAX
    assert done["kind"] == "done"


@pytest.mark.parametrize(
    ("fields", "says"),
    [({"program": ()}, "program"), ({"seconds": 0}, "--"), ({"seconds": float("nan")}, "--")],
)
def test_what_cannot_work_is_refused_at_once(fields: dict[str, Any], says: str) -> None:
    """Before any message arrives."""
    with pytest.raises(InvalidArgument, match=says):
        ChatExecOptions(**{"program": ("true",), **fields})


# --- prompts -------------------------------------------------------------------------------------


def test_a_prompt_says_who_said_what() -> None:
    """Messages come in order, unchanged, with the sender that waits for an answer."""
    said = [
        a_message(1, "{text} is <b>"),
        a_message(2, "two\nlines", sender="ben"),
        a_message(3, "aside", is_call=False),
    ]
    text = chat_prompt("garden", said)
    assert "chat garden" in text
    assert "\nann: {text} is <b>\nben: two\n    lines\nann: aside\n" in text
    assert "\nben is waiting" in text


def test_a_template_names_what_it_wants() -> None:
    """What is put in is not looked at again, and other braces stay."""
    said = [a_message(1, "{sender}"), a_message(2, "aside", is_call=False)]
    assert tuple(chat_placeholders("garden", said)) == (
        "text",
        "sender",
        "id",
        "group",
        "messages",
        "count",
    )
    template = "{text}|{sender}|{id}|{group}|{messages}|{count}|{goal}"
    assert chat_prompt("garden", said, template) == (
        "{sender}|ann|m1|garden|ann: {sender}\nann: aside|2|{goal}"
    )
