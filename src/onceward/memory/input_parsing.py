"""Input parsing: accept the field aliases that clients use, and return graph input.

Maps aliases (`source` for `from`, `observation` for `contents`), and names the invalid field in
errors. Limits and existence are checked by the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from onceward.errors import InvalidArgument, NotCanonical
from onceward.keys.canonical import compact_json
from onceward.memory.models import Link, NewEntity, NewObservations

#: Values of `type` in an exported line; in a call they are not entity types.
_LINE_TYPES: Final = frozenset({"entity", "relation"})
#: How much of the input is repeated in an error.
_SHOWN_CHARACTERS: Final = 60

_OBSERVATIONS: Final = ("observations", "observation", "contents")
_CONTENTS: Final = ("contents", "content", "observation", "observations")


def entities(
    items: object, *, field: str = "entities", is_strict: bool = False
) -> tuple[NewEntity, ...]:
    """Return entities to create; observations may be missing, one string, or a list.

    Raises InvalidArgument naming the field, such as `entities[3].name`.
    """
    return tuple(
        each
        if isinstance(each, NewEntity)
        else _entity(_InputItem.of(each, place), is_strict=is_strict)
        for place, each in _with_paths(items, field)
    )


def observations(
    items: object, *, field: str = "observations", is_strict: bool = False
) -> tuple[NewObservations, ...]:
    """Return observations to add, grouped by entity."""
    return _grouped(items, field, _CONTENTS, is_strict=is_strict)


def deletions(
    items: object, *, field: str = "deletions", is_strict: bool = False
) -> tuple[NewObservations, ...]:
    """Return observations to delete, grouped by entity."""
    return _grouped(items, field, _OBSERVATIONS, is_strict=is_strict)


def links(items: object, *, field: str = "relations", is_strict: bool = False) -> tuple[Link, ...]:
    """Return relations by the names of their entities."""
    return tuple(
        each if isinstance(each, Link) else _link(_InputItem.of(each, place), is_strict=is_strict)
        for place, each in _with_paths(items, field)
    )


def names(items: object, *, field: str = "names") -> tuple[str, ...]:
    """Return the names unchanged."""
    return tuple(_text(each, place) for place, each in _with_paths(items, field))


# --- one item ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _InputItem:
    """One object of a list, with its path."""

    fields: Mapping[str, object]
    place: str

    @classmethod
    def of(cls, value: object, place: str) -> _InputItem:
        if not isinstance(value, Mapping):
            raise _type_error(value, place, "an object")
        return cls(value, place)

    def text(self, *spellings: str) -> str:
        """Return the string of a field under any of its aliases; the first is canonical."""
        found = [each for each in spellings if self.fields.get(each) is not None]
        place = f"{self.place}.{spellings[0]}"
        if not found:
            message = f"{place}: is missing"
            raise InvalidArgument(message, fix=f"send {spellings[0]} as a string", field=place)
        texts = [_text(self.fields[each], f"{self.place}.{each}") for each in found]
        if len(set(texts)) > 1:
            message = f"{place}: {' and '.join(found)} have different values"
            raise InvalidArgument(message, fix=f"send {spellings[0]} alone", field=place)
        return texts[0]

    def type_of(self, proper: str) -> str:
        """Return the type; `type` is an alias unless it gives the kind of an exported line."""
        word = self.fields.get("type")
        is_line = isinstance(word, str) and word in _LINE_TYPES
        if self.fields.get(proper) is not None or is_line:
            return self.text(proper)
        return self.text(proper, "type")

    def contents(self, spellings: Sequence[str], *, is_needed: bool) -> tuple[str, ...]:
        """Return the strings of all aliases of a field, each one string or a list."""
        found = [each for each in spellings if self.fields.get(each) is not None]
        if not found and is_needed:
            place = f"{self.place}.{spellings[0]}"
            message = f"{place}: is missing"
            raise InvalidArgument(
                message, fix=f"send {spellings[0]} as a list of strings", field=place
            )
        texts: list[str] = []
        for each in found:
            value, place = self.fields[each], f"{self.place}.{each}"
            if isinstance(value, (list, tuple)):
                texts += [_content(one, where) for where, one in _with_paths(value, place)]
            else:
                texts.append(_content(value, place))
        return tuple(texts)

    def reject_unknown(self, *known: str) -> None:
        """Reject unknown fields; only used in strict validation."""
        for name in self.fields:
            if name not in known:
                place = f"{self.place}.{name}"
                message = f"{_shown(place)}: is not a known field"
                fix = f"leave it out; known fields are {', '.join(known)}"
                raise InvalidArgument(message, fix=fix, field=_shown(place))


def _entity(item: _InputItem, *, is_strict: bool) -> NewEntity:
    if is_strict:
        item.reject_unknown("name", "entityType", "type", *_OBSERVATIONS)
    return NewEntity(
        name=item.text("name"),
        entity_type=item.type_of("entityType"),
        observations=item.contents(_OBSERVATIONS, is_needed=False),
    )


def _link(item: _InputItem, *, is_strict: bool) -> Link:
    if is_strict:
        item.reject_unknown("from", "to", "relationType", "source", "target", "type")
    return Link(
        from_name=item.text("from", "source"),
        to_name=item.text("to", "target"),
        relation_type=item.type_of("relationType"),
    )


def _grouped(
    items: object, field: str, spellings: Sequence[str], *, is_strict: bool
) -> tuple[NewObservations, ...]:
    groups: list[NewObservations] = []
    for place, each in _with_paths(items, field):
        if isinstance(each, NewObservations):
            groups.append(each)
            continue
        item = _InputItem.of(each, place)
        if is_strict:
            item.reject_unknown("entityName", "name", *spellings)
        name = item.text("entityName", "name")
        contents = item.contents(spellings, is_needed=True)
        groups.append(NewObservations(entity_name=name, contents=contents))
    return tuple(groups)


# --- one value -----------------------------------------------------------------------------------


def _with_paths(items: object, field: str) -> list[tuple[str, object]]:
    """Return the items of a list, each with its path."""
    if not isinstance(items, (list, tuple)):
        raise _type_error(items, field, "a list")
    return [(f"{field}[{index}]", each) for index, each in enumerate(items)]


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise _type_error(value, place, "a string")
    return value


def _content(value: object, place: str) -> str:
    """Return an observation as its stored text; an envelope may be an object."""
    if not isinstance(value, Mapping):
        return _text(value, place)
    try:
        return compact_json(dict(value)).decode()
    except NotCanonical as exc:
        within = f"{place}.{exc.path}"
        message = f"{within}: {exc.message.removeprefix(f'{exc.path}: ')}"
        raise InvalidArgument(message, fix=exc.fix, field=within) from exc


def _type_error(value: object, place: str, wanted: str) -> InvalidArgument:
    """Return the error for a value of the wrong JSON type."""
    kinds: list[tuple[type | tuple[type, ...], str]] = [
        (bool, "a boolean"),
        ((int, float), "a number"),
        (str, "a string"),
        (Mapping, "an object"),
        ((list, tuple), "a list"),
    ]
    kind = next((word for each, word in kinds if isinstance(value, each)), type(value).__name__)
    message = f"{place}: is missing" if value is None else f"{place}: is {kind}, not {wanted}"
    return InvalidArgument(message, fix=f"send {wanted}", field=place)


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
