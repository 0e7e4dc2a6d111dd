"""Key lint: warn about inputs that differ between attempts of the same work."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from onceward.keys.canonical import DEPTH_MAX, join_path

#: Names of values that usually change with every attempt, in snake case.
_NAMES: Final = re.compile(
    r"(?:^|_)(?:nonce|timestamp|ts|now|pid|ppid|uuid|guid|deadline|hostname|salt)$"
    r"|(?:request|message|correlation|trace|span|session|attempt|process|thread|invocation)_id$"
    r"|(?:started|created|updated|finished|requested|sent|received|submitted|expires|run|called)_at$"
    r"|(?:start|current|request)_time$|^(?:attempt|retry|retries|random)$"
)
_VALUES: Final = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d"), "looks like a timestamp"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "is a UUID"),
    (
        re.compile(
            r"^(?:/private)?(?:/tmp|/var/tmp|/var/folders|/dev/shm)/|\\temp\\", re.IGNORECASE
        ),
        "is a temporary path",
    ),
)
#: Seconds since 1970, from 2014 to 2039; milliseconds are a thousand times that.
_EPOCH_SECONDS: Final = range(1_400_000_000, 2_200_000_000)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """An input that would change the key of a retry."""

    #: Its path, such as `inputs.meta.started_at`.
    path: str
    #: Why it is suspicious.
    reason: str


def lint(inputs: object, *, root: str = "inputs") -> list[Finding]:
    """Return inputs that look ephemeral; a heuristic, for warnings only."""
    return list(_findings(inputs, root, None, ()))


def _findings(
    value: object, path: str, name: str | None, above: tuple[int, ...]
) -> Iterator[Finding]:
    if id(value) in above or len(above) > DEPTH_MAX:
        return
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from _findings(child, join_path(path, str(key)), str(key), (*above, id(value)))
    elif isinstance(value, (list, tuple)):
        for index, child in enumerate(value):
            yield from _findings(child, join_path(path, index), None, (*above, id(value)))
    elif reason := _reason(name, value):
        yield Finding(path=path, reason=reason)


def _reason(name: str | None, value: object) -> str | None:
    if name is not None and value is not None and _NAMES.search(_snake_case(name)):
        return "has a name of a value that changes with every attempt"
    if isinstance(value, str):
        return next((reason for pattern, reason in _VALUES if pattern.search(value)), None)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = (value, value / 1000) if value == value and abs(value) < 1e15 else ()  # noqa: PLR0124 - not NaN
        if any(int(second) in _EPOCH_SECONDS for second in seconds):
            return "looks like a timestamp"
    return None


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()
