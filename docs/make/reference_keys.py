"""Make the reference of key vectors: inputs and keys, for people and other languages.

The inputs are those of the golden vectors that the tests defend. A key that has changed is not
written down as if nothing had happened: it is refused.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from docs.make.regions import Maker, Unfit, table
from docs.make.source import ROOT
from onceward import keys

GOLDEN: Final = ROOT / "tests" / "unit" / "keys" / "vectors.json"
FILE: Final = ROOT / "docs" / "reference" / "key-vectors.json"
#: Workspaces outside of git: what is hidden, and what Onceward writes itself, does not count.
WORKSPACES: Final[tuple[dict[str, str], ...]] = (
    {},
    {"a.txt": "hello\n"},
    {"src/main.py": "print('größer')\n", "README.md": "", ".hidden": "no", "events/r.ndjson": "no"},
)
#: What is longer is cut on the page, and whole in the file.
SHOWN_CHARACTERS_MAX: Final = 120
_PARTS: Final = ("action", "task_id", "snapshot_id", "inputs", "expected_outputs")


def regions() -> Mapping[str, Maker]:
    """Return what is made on the page of key vectors."""
    return {
        "canonical JSON": lambda _: _canonical(),
        "command keys": lambda _: _commands(),
        "messages": lambda _: _messages(),
        "stable keys": lambda _: _stable(),
        "snapshots": lambda _: _snapshots(),
    }


def document() -> str:
    """Return the file for other languages."""
    return json.dumps(vectors(), indent=1, ensure_ascii=True) + "\n"


@cache
def vectors() -> dict[str, Any]:
    """Return every input with what the code makes of it."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    found = {
        "rules_version": keys.RULES_VERSION,
        "canonical": [
            {**each, "canonical": keys.canonical_json(keys.loads(each["json"])).decode()}
            for each in golden["canonical"]
        ],
        "idempotency_key": [
            {**each, "key": keys.idempotency_key(**{part: each[part] for part in _PARTS})}
            for each in golden["idempotency_key"]
        ],
        "normalize_message": [
            {**each, "normalized": keys.normalize_message(each["message"])}
            for each in golden["normalize_message"]
        ],
        "stable": [
            {**each, "result": getattr(keys, each["function"])(**each["arguments"])}
            for each in golden["stable"]
        ],
    }
    changed = [name for name, each in found.items() if each != golden[name]]
    if changed:
        message = f"keys have changed for the same work: {', '.join(changed)}; see {GOLDEN.name}"
        raise Unfit(message)
    return {**found, "snapshot": [_snapshot(files) for files in WORKSPACES]}


def _snapshot(files: Mapping[str, str]) -> dict[str, Any]:
    """Return a workspace of these files, and its snapshot."""
    with tempfile.TemporaryDirectory() as name:
        for path, content in files.items():
            file = Path(name, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
        taken = keys.snapshot(name)
    counted = [
        {"path": each.path, "sha256": each.sha256, "size": each.size} for each in taken.files
    ]
    return {"content": dict(files), "files": counted, "id": taken.id}


def _canonical() -> str:
    rows = ((each["json"], each["canonical"]) for each in vectors()["canonical"])
    return _shown(["JSON", "canonical"], rows)


def _commands() -> str:
    rows = (
        (*(_text(each[part]) for part in _PARTS), each["key"])
        for each in vectors()["idempotency_key"]
    )
    return _shown([*_PARTS, "key"], rows)


def _messages() -> str:
    found = vectors()["normalize_message"]
    return _shown(
        ["message", "normalised"], ((each["message"], each["normalized"]) for each in found)
    )


def _stable() -> str:
    found = vectors()["stable"]
    rows = ((each["function"], _text(each["arguments"]), each["result"]) for each in found)
    return _shown(["function", "arguments", "result"], rows)


def _snapshots() -> str:
    rows = (
        (_text(each["content"]), " ".join(file["path"] for file in each["files"]), each["id"])
        for each in vectors()["snapshot"]
    )
    return _shown(["files and their content", "counted", "id"], rows)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shown(heads: list[str], rows: Iterable[Iterable[str]]) -> str:
    return table(heads, [[_cell(each) for each in row] for row in rows])


def _cell(text: str) -> str:
    """Return a text as code; what cannot be seen is escaped, and a long one is cut."""
    seen = "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)
    if text != text.strip():
        seen = json.dumps(text, ensure_ascii=False)  # In quotes, so that its ends are seen.
    short = seen if len(seen) <= SHOWN_CHARACTERS_MAX else seen[:SHOWN_CHARACTERS_MAX] + "…"
    return f"`{short}`" if short else ""
