"""A chat agent that does what the messages tell it, over bare pipes, or with the kit (`kit`).

A text that begins with `!` is a list of orders: `!say hello; wait go; fail`. Every other text is
said back as it is. It notes in files of its directory what it begins and what it is done with.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WAIT_SECONDS_MAX = 300.0
Say = Callable[[str, str | None], None]


class Failed(Exception):
    """The agent was ordered to fail."""

    def __init__(self, is_retryable: bool) -> None:
        super().__init__("ordered to fail")
        self.is_retryable = is_retryable


def note(name: str, text: str) -> None:
    """Add a line to a file, in one write."""
    line = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(line, f"{text}\n".encode())
    os.close(line)


def wait_for(name: str) -> None:
    """Tell where it is, and wait for a file."""
    note(f"at-{name}", str(os.getpid()))
    until = time.monotonic() + WAIT_SECONDS_MAX
    while not Path(name).exists():
        assert time.monotonic() < until, name
        time.sleep(0.005)


def is_first(name: str, id_: str) -> bool:
    path = Path(name)
    return not (path.exists() and id_ in path.read_text().split())


def once(id_: str, order: str, say: Say) -> None:
    """Do something the first time that this message is handled, and then never again."""
    if is_first("tried", id_):
        note("tried", id_)
        obey(id_, order, say)


def fail(*, is_retryable: bool) -> None:
    raise Failed(is_retryable)


def make_noise(_: str) -> None:
    os.write(1, b'no json\n{"kind":"nothing"}\n\xff\xfe\n[]\n{"kind":"output"}\n\n\n')
    os.write(1, b"x" * 2_000_000 + b"\n")


#: What it can do that neither speaks nor depends on the message.
ORDERS: dict[str, Callable[[str], None]] = {
    "wait": wait_for,
    "sleep": lambda seconds: time.sleep(float(seconds)),
    "fail": lambda _: fail(is_retryable=True),
    "final": lambda _: fail(is_retryable=False),
    "exit": lambda code: os._exit(int(code)),
    "die": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "noise": make_noise,
    "deaf": lambda _: os.close(0),
    "mute": lambda _: os.close(1),
}


def obey(id_: str, order: str, say: Say) -> None:
    """Do one thing."""
    word, _, rest = order.strip().partition(" ")
    if word == "once":
        once(id_, rest, say)
    elif word == "say":
        say(rest, None)
    elif word == "key":
        key, _, text = rest.partition(" ")
        say(text, key)
    else:
        ORDERS[word](rest)


def handle(message: dict[str, Any], say: Say) -> None:
    """Do what a message says."""
    text, id_ = message["text"], message["id"]
    note("begun", id_)
    if text.startswith("!"):
        for order in text[1:].split(";"):
            obey(id_, order, say)
    else:
        say(text, None)
    note("done", id_)


def send(**message: Any) -> None:
    os.write(1, json.dumps({k: v for k, v in message.items() if v is not None}).encode() + b"\n")


def answered(messages: list[dict[str, Any]]) -> bool:
    """Do what a delivery says; False when that failed."""
    reached = 0

    def say(text: str, key: str | None) -> None:
        # What it has not looked at yet is not answered by this.
        send(kind="output", text=text, key=key, upto=reached)

    try:
        for each in messages:
            reached = max(reached, each["seq"])
            handle(each, say)
    except Failed as exc:
        failure = {"message": str(exc), "retryable": exc.is_retryable, "upto": reached}
        send(kind="error", **failure)
        return False
    return True


def bare() -> None:
    """Speak the protocol with nothing but the standard library."""
    parts: list[dict[str, Any]] = []
    for line in sys.stdin:
        handed = json.loads(line)
        parts += handed["messages"]
        if handed["more"]:
            continue
        note("handed", " ".join([str(handed["is_follow_up"]), *(each["id"] for each in parts)]))
        messages, parts = parts, []
        if not answered(messages):
            return
        send(kind="done", upto=handed["upto"])


def with_kit() -> None:
    """Let the kit speak."""
    from dataclasses import asdict

    from onceward.agents import Chat, ChatAgent
    from onceward.errors import AgentFailed

    agent = ChatAgent()

    @agent.on_message
    def answer(chat: Chat) -> None:
        note("handed", " ".join([str(chat.is_follow_up), *(each.id for each in chat.messages)]))
        try:
            for each in chat.messages:
                handle(asdict(each), lambda text, key: chat.reply(text, key=key))
        except Failed as exc:
            raise AgentFailed(str(exc), code="ORDERED", retryable=exc.is_retryable) from exc

    agent.run()


def main() -> None:
    note("starts", str(os.getpid()))
    if "kit" in sys.argv:
        with_kit()
    else:
        bare()
    if Path("linger").exists():
        wait_for("leave")


if __name__ == "__main__":
    main()
