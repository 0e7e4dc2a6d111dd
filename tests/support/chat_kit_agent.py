"""A chat agent made with the kit: answers, prints where it should not, and dies on request."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from onceward.agents import Chat, ChatAgent

agent = ChatAgent()


@agent.on_message
def answer(chat: Chat) -> str:
    print("printed by the handler")  # noqa: T201 - which is what is tried out
    # A program that writes to stdout and reads stdin must disturb neither.
    program = "print('printed by a program', flush=True); input()"
    subprocess.run([sys.executable, "-c", program], check=False, stderr=2)
    if chat.text == "die":
        chat.reply("farewell")
        os.kill(os.getpid(), signal.SIGKILL)
    if chat.text == "fail":
        raise ValueError(chat.text)
    if chat.text == "wait":
        chat.reply("waiting")
        with Path("gate").open():  # A pipe: opens when the test opens its other end.
            pass
        taken = chat.follow_ups()
        return " ".join(each.text for each in taken) or "nothing came"
    return chat.text


if __name__ == "__main__":
    agent.run()
