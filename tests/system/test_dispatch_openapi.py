"""What the OpenAPI document says of conversations, taken at its word by a fuzzer."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

from onceward.console.app import build_app
from onceward.dispatch.chats import Chats
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.models import Group, NewMessage
from onceward.gate import Gate, GateSettings
from onceward.handle import open as open_handle
from tests.system.test_lab_openapi import CHECKS

#: `make test` and `make soak`; loading, and shrinking what fails, comes on top.
SECONDS, SECONDS_OF_SOAK = 10, 300
TOKEN = "tok_1"
#: Mostly what exists is asked for.
SETTINGS = """
[dictionaries.groups]
values = ["team", "other"]
[dictionaries.ids]
values = ["m1", "m2"]
[dictionaries.places]
values = [0, 1, 2]
[parameters]
"path.group" = { dictionary = "groups", probability = 0.8 }
"body.id" = { dictionary = "ids", probability = 0.2 }
"query.since" = { dictionary = "places", probability = 0.6 }
"query.before" = { dictionary = "places", probability = 0.6 }
"""


@contextmanager
def serving(chats: Chats) -> Iterator[str]:
    """Serve conversations as the command does, in a thread; gives their address."""
    app = build_app(dispatch=chats)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        gate = Gate(app, settings=GateSettings(port=port, token=TOKEN))
        config = uvicorn.Config(gate, log_level="error", access_log=False, server_header=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        # Nobody here has the time to wait for news: every long poll ends at once.
        app.state.stop_waiting()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.prove
@pytest.mark.timeout(SECONDS_OF_SOAK + 300)
def test_conversations_keep_what_their_openapi_document_says(tmp_path: Path, soak: bool) -> None:
    """Whatever the document allows or forbids, no answer is a 500 or breaks its schema."""
    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    with open_handle(f"sqlite:///{tmp_path / 'chat.db'}") as ow:
        dispatcher = Dispatcher(ow, home=tmp_path)
        for name in ("team", "other"):
            dispatcher.groups.add(Group(name=name, channel="chat", command=("true",)))
        first = NewMessage(group="team", id="m1", sender="ann", text="hello")
        dispatcher.arrivals.receive(first)
        with serving(Chats(ow, dispatcher, token=TOKEN)) as url:
            command = [
                *(str(Path(sys.executable).parent / "st"), "run"),
                f"{url}/api/console/openapi.json",
                *("--header", f"X-CM-LAB-TOKEN: {TOKEN}"),
                *("--checks", ",".join(CHECKS)),
                *("--max-time", str(SECONDS_OF_SOAK if soak else SECONDS)),
                "--no-color",
            ]
            ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        # It got through: what it sent was not all refused.
        arrived, _ = dispatcher.operators.positions()
        assert arrived > 2, ran.stdout
