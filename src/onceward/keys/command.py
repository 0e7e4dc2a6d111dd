"""Command keys: deterministic idempotency keys (`ik:`) for commands.

A key covers action, task, snapshot, inputs and expected outputs. It does not cover message ids,
deadlines or priorities.
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
#: The text parts of a key, in the order in which they are hashed.
LINES: Final = ("action", "task_id", "snapshot_id")


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandContent:
    """The parts of a command that identify its work, and no others."""

    #: The kind of work: implement, review, update_spec …
    action: str
    #: Its task, such as T-0042.
    task_id: str
    #: The workspace snapshot it starts from, such as snap-d0ab7e60b764.
    snapshot_id: str
    #: Parameters, a JSON object.
    inputs: Mapping[str, object]
    #: Artifacts that must exist afterwards, a JSON array.
    expected_outputs: Sequence[object] = ()

    @classmethod
    def from_mapping(cls, fields: Mapping[str, object]) -> CommandContent:
        """Return the work content of a command message; other fields are ignored."""
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
    """Return `ik:` and 64 hexadecimal digits that identify this work.

    Raises InvalidArgument for a part that is empty or contains a newline, NotCanonical for a value
    inside `inputs` or `expected_outputs` that has no canonical form.
    """
    lines = zip(LINES, (action, task_id, snapshot_id), strict=True)
    parts = [_line(name, value).encode() for name, value in lines]
    parts.append(canonical_json(_object(inputs), root="inputs"))
    parts.append(canonical_json(_array(expected_outputs), root="expected_outputs"))
    return KEY_PREFIX + hashlib.sha256(b"\n".join(parts)).hexdigest()


def _line(name: str, value: object) -> str:
    """Validate a text part; parts are separated by newlines in the hashed text."""
    if not isinstance(value, str) or not value:
        message = f"{name}: must be non-empty text, not {value!r:.60}"
        raise InvalidArgument(message, fix=f"pass {name} as a non-empty string", field=name)
    if "\n" in value:
        message = f"{name}: must not contain a newline, which separates the parts of a key"
        raise InvalidArgument(message, fix=f"remove the newline from {name}", field=name)
    return well_formed(name, value)


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        message = f"inputs: must be a JSON object, not {value!r:.60}"
        raise InvalidArgument(message, fix='pass an object such as {"goal": "…"}', field="inputs")
    return value if isinstance(value, dict) else dict(value)


def _array(value: object) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes, bytearray)):
        message = f"expected_outputs: must be a JSON array, not {value!r:.60}"
        fix = 'pass an array such as [{"path": "src/main.py", "required": true}]'
        raise InvalidArgument(message, fix=fix, field="expected_outputs")
    return list(value)
