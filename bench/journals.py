"""Make journal files of a given size for measurements."""

import uuid
from pathlib import Path

import orjson


def session_id(number: int) -> str:
    """Return an id of the length that the Lab's have."""
    return f"lab_{uuid.UUID(int=number)}"


def make(path: Path, size: int, *, sessions: int = 100) -> None:
    """Write a journal of about `size` bytes whose records belong to so many sessions."""
    lines = [
        orjson.dumps(
            {
                "schemaVersion": 1,
                "id": f"fb_{n:08d}",
                "createdAt": "2026-02-06T12:00:00.000Z",
                "sessionId": session_id(n % sessions),
                "ratings": {"overall": n % 101},
                "notes": "The second half is better, the captions are late. " * 5,
            }
        )
        for n in range(2000)
    ]
    block = b"\n".join(lines) + b"\n"
    with path.open("wb") as file:
        for _ in range(max(1, size // len(block))):
            file.write(block)
