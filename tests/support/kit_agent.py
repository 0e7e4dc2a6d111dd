"""A builder made with the kit that counts, in files, how often it begins and completes each key."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from onceward.agents import Agent, Command, HandlerResult, completed

agent = Agent("builder")


def count(name: str, command: Command) -> None:
    with (agent.workspace / name).open("a") as file:
        file.write(f"{command.key}\n")


@agent.on("implement")
def implement(command: Command) -> HandlerResult:
    count("begun", command)
    print("printed by the handler")  # noqa: T201 - which is what is tried out
    # A program that writes to stdout and reads stdin must disturb neither.
    subprocess.run(
        [sys.executable, "-c", "print('printed by a program', flush=True); input()"],
        check=False,
        stderr=2,
    )
    gate = command.inputs.get("gate")
    if gate:
        (agent.workspace / "waiting").touch()
        with Path(gate).open():  # A pipe: opens when the test opens its other end.
            pass
    (agent.workspace / "out.txt").write_text(command.inputs["goal"])
    count("done", command)
    if command.inputs.get("dies") and len((agent.workspace / "begun").read_text().split()) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return completed(artifacts=["out.txt"])


if __name__ == "__main__":
    agent.run()
