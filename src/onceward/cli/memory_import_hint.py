"""Import hint: suggest importing the reference server's file, once per file and store."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Final

from onceward.errors import OncewardError

#: Variable with the path of the reference memory server's file.
FILE_VARIABLE: Final = "MEMORY_FILE_PATH"


def offer_import(store_url: str, store: str | None) -> None:
    """Print how to import the file in $MEMORY_FILE_PATH, unless printed before.

    Never imports automatically: the file may belong to another project or be in use.
    """
    from onceward.journal import atomic_file
    from onceward.stores.store_urls import home

    named = os.environ.get(FILE_VARIABLE, "")
    if not named:
        return
    path = Path(named).expanduser().absolute()
    key = hashlib.sha256(f"{store_url}\n{path}".encode(errors="replace")).hexdigest()[:16]
    marker = home() / "memory-offers" / f"{key}.json"
    try:
        if not path.is_file() or path.stat().st_size == 0 or marker.exists():
            return
        atomic_file.write(marker, json.dumps({"store": store_url, "path": str(path)}).encode())
    except (OncewardError, OSError, ValueError):
        return  # Without a marker file the hint would be printed at every start.
    where = f" --store {shlex.quote(store)}" if store and "@" not in store else ""
    command = f"onceward memory import{where} {shlex.quote(str(path))}"
    print(
        f"${FILE_VARIABLE} is the file of another memory server; to import it: {command}",
        file=sys.stderr,
        flush=True,
    )
