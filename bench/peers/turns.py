"""Turns: a peer does a round when it is asked to, so that both sides meet the same machine."""

import json
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any


def serve(package: str, works: Mapping[str, Callable[..., Any]]) -> None:
    """Say which version this is; then do what each line asks for, until there are no more."""
    _answer(version(package))
    for line in sys.stdin:
        asked = json.loads(line)
        _answer(works[asked["work"]](**asked["with"]))


def _answer(value: object) -> None:
    # Marked, since libraries print things of their own.
    print(json.dumps({"answer": value}), flush=True)
