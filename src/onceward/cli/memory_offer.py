"""The offer to import the file of the reference memory server, once for each file and store."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Final

from onceward.errors import OncewardError

#: Where the reference memory server looks for its file.
FILE_VARIABLE: Final = "MEMORY_FILE_PATH"


def offer_import(store_url: str, store: str | None) -> None:
    """Say on stderr how to import the file that $MEMORY_FILE_PATH names, unless said before.

    Nothing is imported unasked: the file may be another project's, or in use.
    """
    from onceward.journal import atomic
    from onceward.stores.opening import home

    named = os.environ.get(FILE_VARIABLE, "")
    if not named:
        return
    path = Path(named).expanduser().absolute()
    key = hashlib.sha256(f"{store_url}\n{path}".encode(errors="replace")).hexdigest()[:16]
    told = home() / "memory-offers" / f"{key}.json"
    try:
        if not path.is_file() or path.stat().st_size == 0 or told.exists():
            return
        atomic.write(told, json.dumps({"store": store_url, "path": str(path)}).encode())
    except (OncewardError, OSError, ValueError):
        return  # Without a place to remember it, it would be said at every start.
    where = f" --store {shlex.quote(store)}" if store and "@" not in store else ""
    command = f"onceward memory import{where} {shlex.quote(str(path))}"
    print(
        f"${FILE_VARIABLE} names a memory of another server; to import it once: {command}",
        file=sys.stderr,
        flush=True,
    )
