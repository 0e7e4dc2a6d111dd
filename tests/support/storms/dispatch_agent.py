"""An agent of the storm: answers with the kit, and fails one time in five, until all is calm.

Half of its failures come after it has said something. Each reply names the messages it is about.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from onceward.agents import Chat, ChatAgent, ChatMessage

FAILURES = 0.2
agent = ChatAgent()
source = random.Random()


def fail() -> None:
    """End as agents end: by an error, by an exit, by a signal."""
    how = source.choice(["error", "exit", "kill"])
    if how == "error":
        message = "as it happens"
        raise RuntimeError(message)
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


def answer_to(messages: tuple[ChatMessage, ...]) -> str:
    return "re: " + " ".join(each.id for each in messages)


@agent.on_message
def answer(chat: Chat) -> None:
    is_calm = Path(sys.argv[1]).exists()
    is_failing = not is_calm and source.random() < FAILURES
    is_late = source.random() < 0.5
    if is_failing and not is_late:
        fail()
    time.sleep(source.uniform(0, 0.05))
    messages = chat.messages
    if source.random() < 0.5:
        messages += chat.follow_ups()
    if source.random() < 0.5:
        for each in messages:
            chat.reply(answer_to((each,)))
    else:
        chat.reply(answer_to(messages))
    if is_failing:
        # Some of what it said was shown by then, and some was not.
        time.sleep(source.choice([0.0, 0.05, 0.5]))
        fail()


agent.run()
