"""Command keys: the same work has the same `ik:`, whoever computes it and whenever.

Owns what goes into a key and what does not: action, task, snapshot, inputs and expected outputs do;
message ids, deadlines and priorities do not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from onceward.errors import InvalidArgument
from onceward.keys.canonical import canonical_json
from onceward.keys.encoding import well_formed

KEY_PREFIX: Final = "ik:"
#: The parts of a key that are lines of text, in the order in which they are hashed.
LINES: Final = ("action", "task_id", "snapshot_id")


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """The work content of a command; everything that makes it different work, nothing else."""

    #: What is to be done: implement, review, update_spec …
    action: str
    #: The task it belongs to, such as T-0042.
    task_id: str
    #: The state of the workspace it starts from, such as snap-d0ab7e60b764.
    snapshot_id: str
    #: Parameters, a JSON object.
    inputs: Mapping[str, object]
    #: Artifacts that must be there afterwards, a JSON array.
    expected_outputs: Sequence[object] = ()

    @classmethod
    def from_mapping(cls, fields: Mapping[str, object]) -> Command:
        """Take the work content out of a command message; other fields do not matter here."""
        missing = [name for name in (*LINES, "inputs") if name not in fields]
        if missing:
            message = f"{missing[0]}: is missing from the command"
            raise InvalidArgument(message, fix=f"add {', '.join(missing)}", field=missing[0])
        action, task_id, snapshot_id = (_line(name, fields[name]) for name in LINES)
        return cls(
            action=action,
            task_id=task_id,
            snapshot_id=snapshot_id,
            inputs=_object(fields["inputs"]),
            expected_outputs=_array(fields.get("expected_outputs")),
        )

    @property
    def key(self) -> str:
        """Return the command's idempotency key."""
        return idempotency_key(
            action=self.action,
            task_id=self.task_id,
            snapshot_id=self.snapshot_id,
            inputs=self.inputs,
            expected_outputs=self.expected_outputs,
        )


def idempotency_key(
    *,
    action: str,
    task_id: str,
    snapshot_id: str,
    inputs: Mapping[str, object],
    expected_outputs: Sequence[object] | None = None,
) -> str:
    """Return `ik:` and 64 hexadecimal digits that name this work and no other.

    Raises InvalidArgument for a part that is empty or holds a newline, NotCanonical for a value
    inside `inputs` or `expected_outputs` that has no canonical form.
    """
    lines = zip(LINES, (action, task_id, snapshot_id), strict=True)
    parts = [_line(name, value).encode() for name, value in lines]
    parts.append(canonical_json(_object(inputs), root="inputs"))
    parts.append(canonical_json(_array(expected_outputs), root="expected_outputs"))
    return KEY_PREFIX + hashlib.sha256(b"\n".join(parts)).hexdigest()


def _line(name: str, value: object) -> str:
    """Check one of the parts that a newline ends in the hashed text."""
    if not isinstance(value, str) or not value:
        message = f"{name}: must be text that is not empty"
        raise InvalidArgument(message, fix=f"pass {name} as a string", field=name)
    if "\n" in value:
        message = f"{name}: must not hold a newline, which separates the parts of a key"
        raise InvalidArgument(message, fix=f"take the newline out of {name}", field=name)
    return well_formed(name, value)


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        message = "inputs: must be a JSON object"
        raise InvalidArgument(message, fix='pass an object such as {"goal": "…"}', field="inputs")
    return value if isinstance(value, dict) else dict(value)


def _array(value: object) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes, bytearray)):
        message = "expected_outputs: must be a JSON array"
        fix = 'pass an array such as [{"path": "src/main.py", "required": true}]'
        raise InvalidArgument(message, fix=fix, field="expected_outputs")
    return list(value)
