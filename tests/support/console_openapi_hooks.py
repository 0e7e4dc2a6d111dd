"""Hooks for the fuzzer: make most of what it sends fit together, so that it gets past the checks.

A key belongs to its scope, a run to its workspace, a version to a state, which no schema can say.
What the fuzzer means to be refused is left alone.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis import Case, HookContext

#: Where the test wrote down what there is: by the beginning of an address, what fits together.
KNOWN_VARIABLE = "CONSOLE_OPENAPI_KNOWN"
turns = itertools.count()


def _fit(case: Case[Any], known: dict[str, Any]) -> None:
    """Name something that is there, as it is."""
    query = dict(case.query or {})
    query.pop("after", None)
    case.query = query | {name: known[name] for name in known if name in query}
    if not isinstance(case.body, dict):
        return
    body = case.body | {name: known[name] for name in known if name in case.body}
    body |= {name: None for name in ("seen", "effect") if name in body}
    body |= {"reason": "looked"} if "reason" in body else {}
    case.headers["Idempotency-Key"] = f"fit-{next(turns)}"
    if body.get("verdict") == "not_done":
        body.pop("result", None)
    if body.get("ids") is not None:
        body |= {"cursor": None, "ids": [known["id"]]}
    elif "ids" in body or "cursor" in body:
        body |= {"cursor": "leads", "ids": None}
    case.body = {name: value for name, value in body.items() if value is not None}


if KNOWN_VARIABLE in os.environ:
    places = {
        place: itertools.cycle(values)
        for place, values in json.loads(Path(os.environ[KNOWN_VARIABLE]).read_text()).items()
    }

    @schemathesis.hook
    def map_case(context: HookContext, case: Case[Any]) -> Case[Any]:
        """Let three of four requests that are meant to be accepted fit."""
        assert context.operation is not None
        is_meant = case.meta is not None and case.meta.generation.mode.is_positive
        if is_meant and next(turns) % 4:
            for place, values in places.items():
                if context.operation.path.startswith(place):
                    _fit(case, next(values))
        return case
