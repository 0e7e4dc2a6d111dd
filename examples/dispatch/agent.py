"""An agent that follows the orders in its messages, and so can be ordered to fail.

A dispatcher starts it and hands it what people say. Besides answering, it notes in its directory
which messages it has begun with, so that the demonstration can count attempts.
"""

import time
from pathlib import Path

from onceward.agents import Chat, ChatAgent

agent = ChatAgent()


@agent.on_message
def answer(chat: Chat) -> str:
    """Answer everything that was said, unless a message asks for trouble."""
    texts = [message.text for message in chat.messages]
    with Path("attempts.txt").open("a", encoding="utf-8") as notes:
        notes.write(" + ".join(texts) + "\n")
    for text in texts:
        if text == "always fail" or (text == "fail once" and not Path("mended").exists()):
            Path("mended").touch()
            raise RuntimeError("the model is overloaded")  # noqa: EM101, TRY003 - to be read
        if text == "take your time" and not Path("in-a-hurry").exists():
            time.sleep(60)
        if text == "begin, then fail":
            chat.reply("I have ordered the tickets.")
            raise RuntimeError("the connection broke")  # noqa: EM101, TRY003 - to be read
    return "You said: " + " + ".join(texts)


if __name__ == "__main__":
    agent.run()
