"""What the OpenAPI document says of the console, taken at its word by a fuzzer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from onceward.client import Onceward
from onceward.console.app import build_app
from onceward.console.audit import page
from onceward.console.context import ConsoleContext
from onceward.console.workspaces import Workspaces
from onceward.dispatch.conversations import Chats
from onceward.dispatch.dispatcher import Dispatcher
from onceward.orchestrator.workspace_registry import workspace_id
from onceward.workers.alert_models import DEFAULT_RULES
from tests.support import console_openapi_hooks, console_story
from tests.support.openapi_fuzzing import fuzz, serving

#: `make test` and `make soak`; loading, and shrinking what fails, comes on top.
SECONDS, SECONDS_OF_SOAK = 15, 600
TOKEN = "tok_1"


def context_of(ow: Onceward, home: console_story.Home) -> ConsoleContext:
    dispatcher = Dispatcher(ow, home=home.path)
    return ConsoleContext(
        ow=lambda: ow,
        store_url=ow.store.url,
        version="0",
        actor="ann",
        chats=Chats(ow, dispatcher),
        rules=DEFAULT_RULES,
        workspaces=Workspaces([home.path / "agents" / "workspace"], home=home.path),
    )


def known_to(ow: Onceward, context: ConsoleContext) -> dict[str, Sequence[dict[str, object]]]:
    """Return what there is, by the beginning of an address: values that fit together."""
    (workspace,) = context.workspaces.list()
    runs = [file.stem for file in (workspace / "events").iterdir()]
    undone = [each for each in ow.outcomes.list(limit=100) if each.state != "done"]
    names = ("File#src/billing.py", "Tool#pytest", "Concept#old plan")
    letters = [each.id for each in ow.dead.list(state=None)]
    return {
        "/api/cursors": [{"name": each.name, "position": "1"} for each in ow.cursors.list()],
        "/api/outcomes": [{"scope": each.scope, "key": each.key} for each in undone],
        "/api/dead": [{"id": letter} for letter in letters],
        "/api/memory": [{"name": name} for name in names],
        "/api/dispatch": [
            {"name": name, "group": name, "id": number, "since": 1}
            for number, name in enumerate(("team", "broken", "paused"), 1)
        ],
        "/api/orchestrator": [
            {"workspace": workspace_id(workspace), "run": run, "step": 1} for run in runs
        ],
    }


@pytest.mark.prove
@pytest.mark.timeout(SECONDS_OF_SOAK + 600)
def test_the_console_keeps_what_its_openapi_document_says(
    tmp_path: Path, prove: bool, soak: bool
) -> None:
    """Whatever the document allows or forbids, no answer is a 500 or breaks its schema."""
    home = console_story.Home(path=tmp_path / "home")
    console_story.fill_cursors(home)
    console_story.fill_runs(home)
    console_story.fill_conversations(home)
    with home.open() as ow:
        console_story.fill_requests(ow)
        console_story.fill_memory(ow)
        context = context_of(ow, home)
        file = tmp_path / "known.json"
        file.write_text(json.dumps(known_to(ow, context)))
        environment = {
            "SCHEMATHESIS_HOOKS": console_openapi_hooks.__name__,
            console_openapi_hooks.KNOWN_VARIABLE: str(file),
        }
        seconds = SECONDS_OF_SOAK if soak else SECONDS

        def acted() -> bool:
            found = page(ow.store, before=2**62, limit=500)
            done = {each.action for each in found if each.outcome == "done"}
            return len(done) > (5 if soak else 0)

        with serving(build_app(context=context), TOKEN) as url:
            fuzz(
                url,
                TOKEN,
                tmp_path,
                seconds=seconds,
                got_through=acted,
                is_random=prove,
                environment=environment,
            )
