"""Write validation: redact secrets and reject invalid input before a write.

The result contains redacted texts, canonical names and no duplicates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from onceward.errors import InvalidArgument
from onceward.errors.arguments import reject_field
from onceward.keys.names import canonical_name
from onceward.memory import entity_names, envelope, input_parsing
from onceward.memory.models import (
    BATCH_ITEMS_MAX,
    NAME_BYTES_MAX,
    OBSERVATION_BYTES_MAX,
    SOURCE_BYTES_MAX,
    TYPE_BYTES_MAX,
    Link,
    NewEntity,
    NewObservations,
    Removal,
    Validation,
    WriteBatch,
    WriteOrigin,
)
from onceward.system.redaction import Redactor

T = TypeVar("T")
#: Limit for repeated canonicalisation and redaction of a name; one pass in practice.
_PASSES_MAX: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidatedObservation:
    """One observation, ready to be stored."""

    entity_name: str
    content: str
    #: Identifies the observation within its entity.
    fingerprint: str
    envelope: envelope.Envelope | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidatedBatch:
    """A validated batch or removal, without duplicates."""

    entities: tuple[NewEntity, ...] = ()
    facts: tuple[ValidatedObservation, ...] = ()
    links: tuple[Link, ...] = ()
    #: Entities of the requested observations, also those without observations to add.
    observed: tuple[str, ...] = ()
    #: Of a removal: each given name and its canonical one, which is used unless an entity is
    #: stored under the given name.
    canonical: tuple[tuple[str, str], ...] = ()


class Validator:
    """Redacts and validates every write before it reaches the store."""

    def __init__(
        self, redactor: Redactor, *, validation: Validation = Validation.POLICY, root: str = ""
    ) -> None:
        """Redact with this redactor, and validate as `validation` requires.

        Names of files below `root`, a repository's directory, are stored relative to it.
        """
        self._redactor = redactor
        self._validation = validation
        self._root = root

    def batch(self, batch: WriteBatch) -> ValidatedBatch:
        """Validate a write; errors name the invalid field."""
        _check_size(batch)
        entities = [
            self._entity(entity, f"entities[{at}]") for at, entity in enumerate(batch.entities)
        ]
        # Observations of an entity are added even if the entity exists.
        facts = [
            self._fact(entity.name, content, f"entities[{at}].observations[{place}]")
            for at, entity in enumerate(entities)
            for place, content in enumerate(batch.entities[at].observations)
        ]
        facts += self._facts(batch.observations, "contents")
        links = [
            self._link(link, f"relations[{at}]", is_new=True)
            for at, link in enumerate(batch.relations)
        ]
        return ValidatedBatch(
            entities=_unique(entities, lambda entity: entity.name),
            facts=_unique(facts, _identity),
            links=_unique(links, lambda link: link),
            observed=tuple(
                self.name(each.entity_name, f"observations[{at}].entityName")
                for at, each in enumerate(batch.observations)
            ),
        )

    def removal(self, removal: Removal) -> ValidatedBatch:
        """Validate a removal. Keeps each given name, with its canonical one.

        An entity stored before a secret was known, or under another spelling, is removed by its old
        name; the canonical entity must stay.
        """
        _check_size(removal)
        canonical: dict[str, str] = {}
        for at, name in enumerate(removal.entities):
            canonical[name] = self.name(name, f"entityNames[{at}]")
        for at, each in enumerate(removal.observations):
            canonical[each.entity_name] = self.name(each.entity_name, f"deletions[{at}].entityName")
        links: list[Link] = []
        for at, given in enumerate(removal.relations):
            clean = self._link(given, f"relations[{at}]", is_new=False)
            canonical |= {given.from_name: clean.from_name, given.to_name: clean.to_name}
            links.append(replace(given, relation_type=clean.relation_type))
        facts = self._facts(removal.observations, "observations", is_new=False)
        return ValidatedBatch(
            entities=tuple(NewEntity(name=name, entity_type="") for name in removal.entities),
            facts=_unique([*facts, *_as_given(removal.observations)], _identity),
            links=tuple(links),
            canonical=tuple(canonical.items()),
        )

    def name(self, name: str, field: str) -> str:
        """Return the stored form of a name: canonical and redacted."""
        text = self._text(name, field, NAME_BYTES_MAX)
        for _ in range(_PASSES_MAX):
            settled = canonical_name(text, self._root)
            if settled == text:
                return text
            # The canonical form may be longer, or match a secret.
            text = self._text(settled, field, NAME_BYTES_MAX)
        message = f"{field}: has no canonical form: each redaction changes it again"
        raise InvalidArgument(message, fix="use a shorter, simpler name", field=field)

    def names(self, name: str, field: str) -> list[str]:
        """Return the names that a caller may mean: the stored form, and the given one.

        An entity stored before a secret was known, or under another spelling, is still found and
        removed by its old name.
        """
        return list(dict.fromkeys([self.name(name, field), name]))

    def origin(self, origin: WriteOrigin) -> WriteOrigin:
        """Validate and redact the source and the run of a write."""
        source = _check_text(origin.source, "source", SOURCE_BYTES_MAX, is_empty_allowed=True)
        run = None if origin.run is None else self.name(origin.run, "run")
        return WriteOrigin(source=self._redactor.text(source), run=run)

    def _entity(self, entity: NewEntity, field: str) -> NewEntity:
        name = self.name(entity.name, f"{field}.name")
        kind = self._text(entity.entity_type, f"{field}.entityType", TYPE_BYTES_MAX)
        if self._is_checked(entity_names.is_policy_entity, name, kind):
            entity_names.check_entity(name, kind, field)
        return NewEntity(name=name, entity_type=kind)

    def _facts(
        self, observed: Iterable[NewObservations], word: str, *, is_new: bool = True
    ) -> list[ValidatedObservation]:
        group = "observations" if is_new else "deletions"
        return [
            self._fact(name, content, f"{group}[{at}].{word}[{place}]", is_new=is_new)
            for at, each in enumerate(observed)
            for canonical in [self.name(each.entity_name, f"{group}[{at}].entityName")]
            for name in [canonical if is_new else each.entity_name]
            for place, content in enumerate(each.contents)
        ]

    def _fact(
        self, entity_name: str, content: str, field: str, *, is_new: bool = True
    ) -> ValidatedObservation:
        text = _check_text(
            content,
            field,
            OBSERVATION_BYTES_MAX,
            is_empty_allowed=True,
            size_fix="shorten it, or keep the text in a file and store its path",
        )
        clean = envelope.redact(text, self._redactor)
        is_checked = is_new and self._is_checked(envelope.looks_like_envelope, clean)
        found = envelope.check(clean, field) if is_checked else envelope.parse(clean)
        return _observation(entity_name, clean, found)

    def _link(self, link: Link, field: str, *, is_new: bool) -> Link:
        clean = Link(
            from_name=self.name(link.from_name, f"{field}.from"),
            to_name=self.name(link.to_name, f"{field}.to"),
            relation_type=self._text(link.relation_type, f"{field}.relationType", TYPE_BYTES_MAX),
        )
        if is_new and self._is_checked(entity_names.RELATIONS.__contains__, clean.relation_type):
            entity_names.check_relation(clean.from_name, clean.relation_type, clean.to_name, field)
        return clean

    def _is_checked(self, is_of_policy: Callable[..., bool], *given: str) -> bool:
        """Return whether to validate an item; the predicate decides if it belongs to the policy."""
        if self._validation is Validation.POLICY:
            return is_of_policy(*given)
        return self._validation is Validation.STRICT

    def _text(self, text: object, field: str, bytes_max: int) -> str:
        return self._redactor.text(_check_text(text, field, bytes_max))


def _check_text(
    value: object,
    field: str,
    bytes_max: int,
    *,
    is_empty_allowed: bool = False,
    size_fix: str = "shorten it",
) -> str:
    """Reject strings that cannot be stored."""
    given = input_parsing.text(value, field)
    if "\0" in given:
        reject_field(field, "contains a NUL character, which cannot be stored", "remove U+0000")
    if not is_empty_allowed and not given.strip():
        reject_field(field, "is empty or blank", "send a string that is not blank")
    try:
        size = len(given.encode())
    except UnicodeEncodeError:
        problem = "contains an unpaired surrogate, which is not valid Unicode"
        reject_field(field, problem, "send valid Unicode")
    if size > bytes_max:
        reject_field(field, f"has {size} bytes; the limit is {bytes_max}", size_fix)
    return given


def _as_given(observed: Iterable[NewObservations]) -> list[ValidatedObservation]:
    """Return observations unredacted, to find those stored before a secret was known."""
    return [
        _observation(each.entity_name, content, envelope.parse(content))
        for each in observed
        for content in each.contents
    ]


def _observation(
    entity_name: str, content: str, found: envelope.Envelope | None
) -> ValidatedObservation:
    fingerprint = found.fingerprint if found else text_fingerprint(content)
    return ValidatedObservation(
        entity_name=entity_name, content=content, fingerprint=fingerprint, envelope=found
    )


def text_fingerprint(content: str) -> str:
    """Return the fingerprint of a plain observation."""
    return hashlib.sha256(content.encode()).hexdigest()


def _check_size(asked: WriteBatch | Removal) -> None:
    entities = asked.entities
    items = len(entities) + len(asked.relations) + sum(len(o.contents) for o in asked.observations)
    items += sum(len(e.observations) for e in entities if isinstance(e, NewEntity))
    if items > BATCH_ITEMS_MAX:
        message = (
            f"the call has {items} entities, relations and observations; the limit is "
            f"{BATCH_ITEMS_MAX}; nothing was changed"
        )
        raise InvalidArgument(message, fix="send them in several calls")


def _identity(fact: ValidatedObservation) -> tuple[str, str]:
    return fact.entity_name, fact.fingerprint


def _unique(items: Iterable[T], key: Callable[[T], object]) -> tuple[T, ...]:
    """Return the first item for each key, in order."""
    found: dict[object, T] = {}
    for item in items:
        found.setdefault(key(item), item)
    return tuple(found.values())
