"""An agent to talk with: it obeys the messages, so that tests can look at every moment of it.

`hold` waits until the file `go` is in its directory, having left `holding` there; `say and hold`
answers before that. `fail` fails, `say and fail` answers before that. Everything else is repeated.
"""

from __future__ import annotations

import time
from pathlib import Path

from onceward.agents import ChatAgent
from onceward.agents.chat import Chat

HOLD_SECONDS_MAX = 60
agent = ChatAgent()


def hold(place: Path) -> None:
    (place / "holding").write_text("")
    until = time.monotonic() + HOLD_SECONDS_MAX
    while not (place / "go").exists() and time.monotonic() < until:
        time.sleep(0.01)


@agent.on_message
def answer(chat: Chat) -> None:
    """Answer each message on its own, in the order they came."""
    for message in chat.messages:
        if message.text.startswith("say and"):
            chat.reply(f"At once: {message.text}")
        if message.text.endswith("hold"):
            hold(chat.workspace)
        if message.text.endswith("fail"):
            raise RuntimeError(message.text)
        chat.reply(f"You said: {message.text}")


agent.run()
