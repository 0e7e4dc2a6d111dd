"""Groups: add, change, list and remove groups, the conversations with their agent's settings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from onceward.dispatch.models import NAME_CHARACTERS_MAX, Group, TriggerKind
from onceward.errors import Conflict, GroupMissing, InvalidArgument
from onceward.stores import Store, Transaction

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*")
_NAME_FIX: Final = (
    f"use 1 to {NAME_CHARACTERS_MAX} of A-Z, a-z, 0-9 and `. _ @ + -`; the first is a letter or "
    "digit"
)
_SECONDS_MAX: Final = 7 * 24 * 3600.0


class Groups:
    """The groups of one store."""

    def __init__(self, store: Store) -> None:
        """Use this store."""
        self._store = store

    def add(self, group: Group) -> Group:
        """Add a group. Idempotent; Conflict if one of this name has other settings."""
        check(group)
        row = _row(group)
        added = self._store.write(lambda tx: _added(tx, group, row))
        found = self.show(group.name)
        if not added and _row(found) != row:
            message = f"group {group.name!r} exists with other settings; nothing was changed"
            fix = (
                f"choose another name, or change the group's settings with `onceward dispatch "
                f"groups set {group.name}`"
            )
            raise Conflict(message, fix=fix)
        return found

    def set(self, name: str, **changes: Any) -> Group:  # noqa: ANN401 - fields of Group, checked
        """Change settings of a group; they apply from the next run on."""
        group = replace(self.show(name), **changes)
        check(group)
        row = {**_row(group), "is_paused": group.is_paused}
        if not self._store.write(lambda tx: tx.query("dispatch_group_set", **row)):
            raise GroupMissing(name)
        return self.show(name)

    def remove(self, name: str) -> None:
        """Remove a group; its messages stay in the store."""
        if not self._store.write(lambda tx: tx.query("dispatch_group_remove", name=name)):
            raise GroupMissing(name)

    def show(self, name: str) -> Group:
        """Return a group; GroupMissing if there is none."""
        rows = self._store.read("dispatch_group_show", name=name)
        if not rows:
            raise GroupMissing(name)
        return group_of(rows[0])

    def nudged(self) -> Sequence[str]:
        """Return the groups that operators changed, once each, for the dispatcher."""
        names = [row[0] for row in self._store.read("dispatch_group_nudged")]
        for name in names:
            # Cleared before the group is examined, so that a later nudge is not lost.
            self._store.write(partial(_note_nudge, name=name))
        return names

    def list(self) -> list[Group]:
        """Return all groups, by name."""
        return [group_of(row) for row in self._store.read("dispatch_group_list")]


def _added(tx: Transaction, group: Group, row: Mapping[str, Any]) -> bool:
    added = tx.query("dispatch_group_add", **row)
    # Messages of a removed group of this name are pending again.
    last = tx.query("dispatch_message_last", group=group.name, upto=2**62) if added else []
    if last and group.trigger is TriggerKind.ALWAYS:
        tx.query("dispatch_group_called", name=group.name, seq=last[0][0])
        tx.query("dispatch_group_nudge", name=group.name)
    return bool(added)


def _note_nudge(tx: Transaction, name: str) -> None:
    tx.query("dispatch_group_clear_nudge", name=name)


def check(group: Group) -> None:
    """Raise InvalidArgument for the first invalid setting."""
    if len(group.name) > NAME_CHARACTERS_MAX or not _NAME.fullmatch(group.name):
        message = f"name: {group.name[:50]!r} is not a valid group name"
        raise InvalidArgument(message, fix=_NAME_FIX, field="name")
    if len(group.channel) > NAME_CHARACTERS_MAX or not _NAME.fullmatch(group.channel):
        message = f"channel: {group.channel[:50]!r} is not a valid channel name"
        raise InvalidArgument(message, fix=_NAME_FIX, field="channel")
    if not group.command or not all(_is_text(each) for each in group.command):
        message = "command: must be a program and its arguments, none of them empty or with NUL"
        raise InvalidArgument(
            message, fix='pass a list such as ["python3", "agent.py"]', field="command"
        )
    if group.trigger is not TriggerKind.ALWAYS and not group.word.strip():
        message = (
            f"word: is missing, but the trigger {group.trigger} needs one; nothing was changed"
        )
        fix = "pass a word such as @bot, or the trigger always"
        raise InvalidArgument(message, fix=fix, field="word")
    texts: Iterable[tuple[str, str]] = (("word", group.word), ("workdir", group.workdir or "x"))
    for field, text in texts:
        if len(text) > 4096 or not _is_text(text or "-"):
            message = f"{field}: must be at most 4096 characters of valid Unicode without NUL"
            raise InvalidArgument(
                message, fix="shorten it, or correct these characters", field=field
            )
    for field in ("idle_seconds", "hard_seconds"):
        if not 0 < getattr(group, field) <= _SECONDS_MAX:
            message = (
                f"{field}: must be more than 0 and at most {_SECONDS_MAX:.0f} seconds (a week), "
                f"not {getattr(group, field):g}; nothing was changed"
            )
            raise InvalidArgument(message, fix="pass seconds, such as 300", field=field)


def _is_text(value: object) -> bool:
    if not isinstance(value, str) or not value or "\0" in value:
        return False
    return not any("\ud800" <= each <= "\udfff" for each in value)


def _row(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "channel": group.channel,
        "command": json.dumps(list(group.command)),
        "trigger_kind": str(group.trigger),
        "trigger_word": group.word,
        "workdir": group.workdir,
        "idle_seconds": float(group.idle_seconds),
        "hard_seconds": float(group.hard_seconds),
    }


def group_of(row: tuple[Any, ...]) -> Group:
    """Return the group of a stored row."""
    name, channel, command, kind, word, workdir, idle, hard, *rest = row
    paused, called, attempts, error, wait, retry_at = rest
    return Group(
        name=name,
        channel=channel,
        command=tuple(json.loads(command)),
        trigger=TriggerKind(kind),
        word=word,
        workdir=workdir,
        idle_seconds=idle,
        hard_seconds=hard,
        is_paused=bool(paused),
        called_seq=called,
        attempts=attempts,
        last_error=error,
        wait_seconds=float(wait),
        retry_at=retry_at,
    )
