"""Canonical JSON of a peer: `python -m bench.peers.canonical_json NAME`."""

import importlib
import sys
import time
from typing import Any

from bench.peers.turns import serve

#: What encodes, in each package.
FUNCTIONS = {"jcs": "canonicalize", "rfc8785": "dumps"}


def main(package: str) -> None:
    encode = getattr(importlib.import_module(package), FUNCTIONS[package])

    def encoded(given: Any) -> str:  # noqa: ANN401 - any JSON
        text: bytes = encode(given)
        return text.decode()

    def seconds(given: Any, calls: int) -> float:  # noqa: ANN401 - any JSON
        began = time.perf_counter()
        for _ in range(calls):
            encode(given)
        return (time.perf_counter() - began) / calls

    serve(package, {"encoded": encoded, "seconds": seconds})


if __name__ == "__main__":
    main(sys.argv[1])
