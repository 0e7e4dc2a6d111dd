"""An agent that behaves badly, in the way that its first argument names.

Run as `python -I -S hostile_agent.py MODE`; it needs nothing but the standard library, so that it
starts quickly. Modes that end in `_first` behave badly in their first life only.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

AT = "2026-01-01T00:00:00.000Z"
WORKSPACE = Path(os.environ["ONCEWARD_WORKSPACE"])
LIVES = WORKSPACE / "lives"
BEAT_SECONDS = float(os.environ["ONCEWARD_HEARTBEAT_SECONDS"])
WRITING = threading.Lock()


def write(data: bytes, descriptor: int = 1) -> None:
    with WRITING:
        while data:
            data = data[os.write(descriptor, data) :]


def send(message: dict[str, object]) -> None:
    write(json.dumps(message).encode() + b"\n")


def event(command: dict[str, object], name: str = "builder.completed", **changes: object) -> None:
    send(
        {
            "kind": "event",
            "message_id": "msg",
            "correlation_id": command["correlation_id"],
            "task_id": command["task_id"],
            "from": {"agent_type": "builder"},
            "event": name,
            "payload": {"tests": {"status": "pass"}, "life": life()},
            "occurred_at": AT,
            **changes,
        }
    )


def life() -> int:
    return LIVES.stat().st_size


def beat() -> None:
    seq = 0
    while True:
        seq += 1
        agent = {"agent_type": "builder"}
        send(
            {
                "kind": "heartbeat",
                "agent": agent,
                "seq": seq,
                "status": "busy",
                "pid": os.getpid(),
                "uptime_s": seq,
                "last_activity_at": AT,
            }
        )
        time.sleep(BEAT_SECONDS)


def wait() -> None:
    while True:
        time.sleep(60)


def note_pid(name: str) -> None:
    (WORKSPACE / name).write_text(str(os.getpid()))


def child(work: Callable[[], None], *, leaves: bool = False) -> None:
    """Start a process that keeps the pipes open."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        if leaves:
            os.setsid()
        note_pid("child")
        os.write(writer, b"x")
        work()
        os._exit(0)
    os.read(reader, 1)


def flood_logs() -> None:
    line = json.dumps({"kind": "log", "level": "info", "message": "x" * 60, "timestamp": AT})
    # No bigger than what a pipe takes in one piece, so that answers are not torn.
    block = (line.encode() + b"\n") * (4000 // (len(line) + 1))
    while True:
        os.write(1, block)


def behave(mode: str, command: dict[str, object]) -> None:  # noqa: C901, PLR0912, PLR0915 - a list
    if mode == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif mode == "exit":
        os._exit(0)
    elif mode == "answer_and_die":
        event(command)
        os.kill(os.getpid(), signal.SIGKILL)
    elif mode == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif mode in ("silent", "slow"):
        wait()
    elif mode == "slow_group":
        child(wait)
        wait()
    elif mode == "flood":
        child(flood_logs)
        time.sleep(1)
        event(command)
    elif mode == "flood_forever":
        child(flood_logs)
        wait()
    elif mode == "progress":
        one = {"payload": {"message": "x" * 500}}
        for _ in range(20_000):
            event(command, "builder.progress", **one)
        event(command)
    elif mode == "endless_line":
        while True:
            os.write(1, b"x" * 65536)
    elif mode == "stderr":
        write(b"y" * 100_000 + b"\n", 2)
        for _ in range(1000):
            write((b"x" * 99 + b"\n") * 500, 2)
        event(command)
    elif mode == "noise":
        write(b"garbage\n" * 3 + b"\xff\xfe\n" + b'{"kind":"log"}\n[]\n' + b"z" * 1_000_000 + b"\n")
        event(command, correlation_id="another")
        event(command)
    elif mode == "too_big":
        event(command, payload={"tests": {"status": "pass"}, "x": "x" * 300_000})
        wait()
    elif mode == "wrong_shape":
        event(command, "builder.finished")
        wait()
    elif mode == "wrong_version":
        event(command, observed_version={"snapshot_id": "snap-other"})
    elif mode == "outside":
        event(command, artifacts=[{"path": "../out", "sha256": "0" * 64, "size": 1}])
    elif mode == "error":
        payload = {"code": "NO_LUCK", "message": "not today", "retryable": True}
        event(command, "error", payload=payload)
    elif mode == "grandchild":
        child(wait)
        os._exit(0)
    elif mode == "grandchild_leaves":
        child(wait, leaves=True)
        os._exit(0)
    elif mode == "closes_stdout":
        os.close(1)
        wait()
    elif mode == "secrets":
        token = os.environ["MY_TOKEN"]
        write(f"stderr {token}\nPASSWORD=abc-{token}\n".encode(), 2)
        send({"kind": "log", "level": "info", "message": f"log {token}", "timestamp": AT})
        event(command, "builder.progress", payload={"message": token})
        event(command, payload={"tests": {"status": "pass"}, "note": f"it is {token}"})
    else:
        event(command)


def main() -> None:
    with LIVES.open("ab") as file:
        file.write(b"x")
    mode = sys.argv[1].removesuffix("_first")
    if mode != sys.argv[1] and life() > 1:
        mode = "good"
    if mode not in ("silent", "stop", "endless_line"):
        threading.Thread(target=beat, daemon=True).start()
    if mode == "deaf":
        os.close(0)
        wait()
    if mode == "not_reading":
        wait()
    for line in sys.stdin:
        behave(mode, json.loads(line))
    if mode == "ignores_eof":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        wait()


main()
