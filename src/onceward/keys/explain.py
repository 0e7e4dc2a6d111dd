"""Key explanation: report the differences between two commands that change their keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import islice
from typing import Final

from onceward.keys.canonical import canonical_json, join_path, loads
from onceward.keys.command import CommandContent

#: Maximum number of reported differences; `truncated` is set if there are more.
DIFFERENCES_MAX: Final = 100
_ABSENT: Final = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyDifference:
    """One value in which two commands differ."""

    #: Its path, such as `inputs.items[3].price`; the first step is the part of the key.
    path: str
    #: Canonical JSON of the value in the first command; None if it is absent.
    left: str | None
    #: The same in the second.
    right: str | None

    @property
    def component(self) -> str:
        """Return the part of the key that contains the value."""
        return self.path.replace("[", ".").split(".")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Whether two commands have the same key, and their differences."""

    left_key: str
    right_key: str
    differences: tuple[KeyDifference, ...]
    #: True when there are more differences than are listed.
    truncated: bool = False

    @property
    def same(self) -> bool:
        """Return whether both commands are the same work."""
        return self.left_key == self.right_key


def explain(
    left: CommandContent | Mapping[str, object], right: CommandContent | Mapping[str, object]
) -> Explanation:
    """Compare two commands part by part, by the rules of their keys."""
    a, b = (
        side if isinstance(side, CommandContent) else CommandContent.from_mapping(side)
        for side in (left, right)
    )
    left_key, right_key = a.key, b.key
    found = list(islice(_differences(_parts(a), _parts(b), ""), DIFFERENCES_MAX + 1))
    assert (left_key == right_key) == (not found), (left_key, right_key, found)
    return Explanation(
        left_key=left_key,
        right_key=right_key,
        differences=tuple(found[:DIFFERENCES_MAX]),
        truncated=len(found) > DIFFERENCES_MAX,
    )


def _parts(command: CommandContent) -> dict[str, object]:
    """Return the command's parts after a round trip through canonical JSON."""
    parts = {field.name: getattr(command, field.name) for field in fields(CommandContent)}
    parts["inputs"] = dict(command.inputs)
    parts["expected_outputs"] = list(command.expected_outputs)
    return {name: loads(canonical_json(part, root=name)) for name, part in parts.items()}


def _differences(left: object, right: object, path: str) -> Iterator[KeyDifference]:
    if isinstance(left, dict) and isinstance(right, dict):
        for name in [*left, *(name for name in right if name not in left)]:
            yield from _differences(
                left.get(name, _ABSENT), right.get(name, _ABSENT), join_path(path, name)
            )
    elif isinstance(left, list) and isinstance(right, list):
        for index in range(max(len(left), len(right))):
            yield from _differences(
                left[index] if index < len(left) else _ABSENT,
                right[index] if index < len(right) else _ABSENT,
                join_path(path, index),
            )
    elif (shown := _shown(left)) != (other := _shown(right)):
        yield KeyDifference(path=path, left=shown, right=other)


def _shown(value: object) -> str | None:
    return None if value is _ABSENT else canonical_json(value).decode()
