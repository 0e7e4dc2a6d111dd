"""What the OpenAPI document says of conversations, taken at its word by a fuzzer."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceward.client import open as open_handle
from onceward.console.app import build_app
from onceward.dispatch.conversations import Chats
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.models import Group, NewMessage
from tests.support.openapi_fuzzing import fuzz, serving

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


@pytest.mark.prove
@pytest.mark.timeout(SECONDS_OF_SOAK + 300)
def test_conversations_keep_what_their_openapi_document_says(
    tmp_path: Path, prove: bool, soak: bool
) -> None:
    """Whatever the document allows or forbids, no answer is a 500 or breaks its schema."""
    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    with open_handle(f"sqlite:///{tmp_path / 'chat.db'}") as ow:
        dispatcher = Dispatcher(ow, home=tmp_path)
        for name in ("team", "other"):
            dispatcher.groups.add(Group(name=name, channel="chat", command=("true",)))
        first = NewMessage(group="team", id="m1", sender="ann", text="hello")
        dispatcher.arrivals.receive(first)
        app = build_app(dispatch=Chats(ow, dispatcher))
        with serving(app, TOKEN) as url:
            fuzz(
                url,
                TOKEN,
                tmp_path,
                seconds=SECONDS_OF_SOAK if soak else SECONDS,
                got_through=lambda: dispatcher.operators.positions()[0] > 1,
                is_random=prove,
            )
