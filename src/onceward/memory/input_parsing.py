"""Input parsing: accept what clients pass, and return graph input and arguments of records.

Maps field aliases (`source` for `from`, `observation` for `contents`), and names the invalid field
in errors. Limits and existence are checked by the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, TypeVar

from onceward.errors import NotCanonical
from onceward.errors.arguments import reject_field
from onceward.keys.canonical import compact_json
from onceward.memory.entity_names import TYPES
from onceward.memory.models import Link, NewEntity, NewObservations
from onceward.system.redaction import Redactor

T = TypeVar("T")
#: Values of `type` in an exported line; in a call they are not entity types.
_LINE_TYPES: Final = frozenset({"entity", "relation"})
#: How much of the input is repeated in an error.
_SHOWN_CHARACTERS: Final = 60

_OBSERVATIONS: Final = ("observations", "observation", "contents")
_CONTENTS: Final = ("contents", "content", "observation", "observations")
_KINDS: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (bool, "a boolean"),
    ((int, float), "a number"),
    (str, "a string"),
    (Mapping, "an object"),
    ((list, tuple), "a list"),
)


def text(value: object, place: str) -> str:
    """Return a string; raise InvalidArgument naming its place for any other value."""
    if not isinstance(value, str):
        _reject_type(value, place, "a string")
    return value


def names(items: object, *, field: str = "names") -> tuple[str, ...]:
    """Return the names unchanged."""
    return tuple(text(each, place) for place, each in _with_paths(items, field))


def entities(
    items: object, *, field: str = "entities", is_strict: bool = False
) -> tuple[NewEntity, ...]:
    """Return entities to create; observations may be missing, one string, or a list.

    Raises InvalidArgument naming the field, such as `entities[3].name`.
    """

    def read(item: _InputItem) -> NewEntity:
        item.reject_unknown(is_strict, "name", "entityType", "type", *_OBSERVATIONS)
        return NewEntity(
            name=item.text("name"),
            entity_type=item.type_of("entityType"),
            observations=item.contents(_OBSERVATIONS, is_needed=False),
        )

    return _each(items, field, NewEntity, read)


def links(items: object, *, field: str = "relations", is_strict: bool = False) -> tuple[Link, ...]:
    """Return relations by the names of their entities."""

    def read(item: _InputItem) -> Link:
        item.reject_unknown(is_strict, "from", "to", "relationType", "source", "target", "type")
        return Link(
            from_name=item.text("from", "source"),
            to_name=item.text("to", "target"),
            relation_type=item.type_of("relationType"),
        )

    return _each(items, field, Link, read)


def observations(
    items: object,
    *,
    field: str = "observations",
    spellings: Sequence[str] = _CONTENTS,
    is_strict: bool = False,
) -> tuple[NewObservations, ...]:
    """Return observations to add, grouped by entity; the first spelling is the canonical one."""

    def read(item: _InputItem) -> NewObservations:
        item.reject_unknown(is_strict, "entityName", "name", *spellings)
        name = item.text("entityName", "name")
        return NewObservations(entity_name=name, contents=item.contents(spellings, is_needed=True))

    return _each(items, field, NewObservations, read)


def deletions(items: object, *, is_strict: bool = False) -> tuple[NewObservations, ...]:
    """Return observations to delete, grouped by entity."""
    return observations(items, field="deletions", spellings=_OBSERVATIONS, is_strict=is_strict)


def _each(
    items: object, field: str, kind: type[T], read: Callable[[_InputItem], T]
) -> tuple[T, ...]:
    """Return the objects of a list; those that are of the wanted class already are kept."""
    found: list[T] = []
    for place, each in _with_paths(items, field):
        if isinstance(each, kind):
            found.append(each)
        elif isinstance(each, Mapping):
            found.append(read(_InputItem(each, place)))
        else:
            _reject_type(each, place, "an object")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _InputItem:
    """One object of a list, with its path."""

    fields: Mapping[str, object]
    place: str

    def text(self, *spellings: str) -> str:
        """Return the string of a field under any of its aliases; the first is canonical."""
        proper = spellings[0]
        found = self._given(spellings)
        texts = [text(self.fields[each], f"{self.place}.{each}") for each in found]
        if not found:
            reject_field(f"{self.place}.{proper}", "is missing", f"send {proper} as a string")
        if len(set(texts)) > 1:
            problem = f"{' and '.join(found)} have different values"
            reject_field(f"{self.place}.{proper}", problem, f"send {proper} alone")
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
        found = self._given(spellings)
        if not found and is_needed:
            fix = f"send {spellings[0]} as a list of strings"
            reject_field(f"{self.place}.{spellings[0]}", "is missing", fix)
        texts: list[str] = []
        for each in found:
            value, place = self.fields[each], f"{self.place}.{each}"
            is_list = isinstance(value, (list, tuple))
            items = _with_paths(value, place) if is_list else [(place, value)]
            texts += [_content(one, where) for where, one in items]
        return tuple(texts)

    def reject_unknown(self, is_strict: bool, *known: str) -> None:  # noqa: FBT001 - the mode
        """Reject unknown fields in strict validation."""
        for name in self.fields if is_strict else ():
            if name not in known:
                place = f"{self.place}.{name}"
                shown = (
                    place if len(place) <= _SHOWN_CHARACTERS else place[:_SHOWN_CHARACTERS] + "…"
                )
                fix = f"leave it out; known fields are {', '.join(known)}"
                reject_field(shown, "is not a known field", fix)

    def _given(self, spellings: Sequence[str]) -> list[str]:
        return [each for each in spellings if self.fields.get(each) is not None]


def _with_paths(items: object, field: str) -> list[tuple[str, object]]:
    """Return the items of a list, each with its path."""
    if not isinstance(items, (list, tuple)):
        _reject_type(items, field, "a list")
    return [(f"{field}[{index}]", each) for index, each in enumerate(items)]


def _content(value: object, place: str) -> str:
    """Return an observation as its stored text; an envelope may be an object."""
    if not isinstance(value, Mapping):
        return text(value, place)
    try:
        return compact_json(dict(value)).decode()
    except NotCanonical as exc:
        reject_field(f"{place}.{exc.path}", exc.message.removeprefix(f"{exc.path}: "), exc.fix)


def _reject_type(value: object, place: str, wanted: str) -> NoReturn:
    """Raise the error for a value of the wrong JSON type."""
    kind = next((word for each, word in _KINDS if isinstance(value, each)), type(value).__name__)
    problem = "is missing" if value is None else f"is {kind}, not {wanted}"
    reject_field(place, problem, f"send {wanted}")


# --- arguments of records ------------------------------------------------------------------------

#: A relation type and the entity that a record relates to by name.
RelatedEntity = tuple[str, NewEntity]


class RecordArguments:
    """Validates and redacts the arguments of a record; every error names the argument."""

    def __init__(self, redactor: Redactor) -> None:
        """Redact with this redactor."""
        self._redactor = redactor

    def text(self, field: str, value: object) -> str:
        """Return a redacted string."""
        return self._redactor.text(text(value, field))

    def non_empty_text(self, field: str, value: object) -> str:
        """Return a redacted string that is not blank."""
        clean = self.text(field, value)
        if not clean.strip():
            reject_field(field, "must not be empty or blank", "pass a text that is not blank")
        return clean

    def text_list(self, field: str, values: object) -> list[str]:
        """Return a list of redacted strings that are not blank."""
        if not isinstance(values, Sequence) or isinstance(values, str | bytes):
            _reject_type(values, field, "a list of strings")
        return [self.non_empty_text(f"{field}[{at}]", value) for at, value in enumerate(values)]

    def json(self, field: str, value: object) -> object:
        """Return a redacted JSON value; the envelope validates its shape."""
        try:
            return self._redactor.value(value)
        except RecursionError:
            reject_field(field, "is nested too deeply", "use fewer levels of nesting")

    def related_entities(
        self, relation: str, entity_type: str, field: str, values: object
    ) -> list[RelatedEntity]:
        """Return entities that can be created from their names alone."""
        prefix = f"{TYPES[entity_type]}#"
        named = []
        for at, value in enumerate(self.text_list(field, values)):
            # The full name is accepted as well; without a version there is no @.
            body = value.removeprefix(prefix).removesuffix("@")
            name = prefix + self.non_empty_text(f"{field}[{at}]", body)
            named.append((relation, NewEntity(name=name, entity_type=entity_type)))
        return named
