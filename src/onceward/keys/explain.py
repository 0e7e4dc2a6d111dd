"""Explain: which part made two keys differ, and where in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import islice
from typing import Final

from onceward.keys.canonical import canonical_json, join_path, loads
from onceward.keys.command import Command

#: More differences than this help nobody; the explanation says that there are more.
DIFFERENCES_MAX: Final = 100
_ABSENT: Final = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One place in which two commands differ."""

    #: Where, such as `inputs.items[3].price`; its first word is the part of the key.
    path: str
    #: The canonical JSON there in the first command; None where there is nothing.
    left: str | None
    #: The same in the second.
    right: str | None

    @property
    def component(self) -> str:
        """Return the part of the key that holds this place."""
        return self.path.replace("[", ".").split(".")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Why two commands are the same work, or are not."""

    left_key: str
    right_key: str
    differences: tuple[Difference, ...]
    #: True when there are more differences than are listed.
    truncated: bool = False

    @property
    def same(self) -> bool:
        """Say whether both commands are the same work."""
        return self.left_key == self.right_key


def explain(
    left: Command | Mapping[str, object], right: Command | Mapping[str, object]
) -> Explanation:
    """Compare two commands part by part, as their keys do."""
    a, b = (
        side if isinstance(side, Command) else Command.from_mapping(side) for side in (left, right)
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


def _parts(command: Command) -> dict[str, object]:
    """Return the command's parts as they read back from their canonical forms."""
    parts = {field.name: getattr(command, field.name) for field in fields(Command)}
    parts["inputs"] = dict(command.inputs)
    parts["expected_outputs"] = list(command.expected_outputs)
    return {name: loads(canonical_json(part, root=name)) for name, part in parts.items()}


def _differences(left: object, right: object, path: str) -> Iterator[Difference]:
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
        yield Difference(path=path, left=shown, right=other)


def _shown(value: object) -> str | None:
    return None if value is _ABSENT else canonical_json(value).decode()
