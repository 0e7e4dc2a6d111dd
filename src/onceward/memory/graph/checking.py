"""Checking: the gates before a write. Takes secrets out, refuses what cannot be kept.

What leaves here is clean: texts without secrets, names and types that fit, each thing once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from onceward.errors import InvalidArgument
from onceward.keys.names import canonical_name
from onceward.memory import envelope, vocabulary
from onceward.memory.models import (
    BATCH_ITEMS_MAX,
    NAME_BYTES_MAX,
    OBSERVATION_BYTES_MAX,
    SOURCE_BYTES_MAX,
    TYPE_BYTES_MAX,
    Batch,
    Link,
    NewEntity,
    NewObservations,
    Origin,
    Removal,
    Validation,
)
from onceward.secrets import Redactor

T = TypeVar("T")
#: How often redaction may change a canonical name again; it is never in practice.
_PASSES_MAX: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """One observation, ready to be stored."""

    entity_name: str
    content: str
    #: Says whether two observations of one entity are the same.
    fingerprint: str
    envelope: envelope.Envelope | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Clean:
    """A batch or a removal that may be carried out, each thing in it once."""

    entities: tuple[NewEntity, ...]
    facts: tuple[Fact, ...]
    links: tuple[Link, ...]
    #: Entities that observations are about, also when there are none to add.
    observed: tuple[str, ...] = ()
    #: Of a removal: each name as it was given, and the canonical one, which is meant unless an
    #: entity is stored as it was given.
    canonical: tuple[tuple[str, str], ...] = ()


class Gate:
    """What every write passes."""

    def __init__(
        self, redactor: Redactor, *, validation: Validation = Validation.POLICY, root: str = ""
    ) -> None:
        """Take these secrets out and check as much as `validation` says.

        Paths of files below `root`, the directory of a repository, are stored relative to it.
        """
        self._redactor = redactor
        self._validation = validation
        self._root = root

    def batch(self, batch: Batch) -> Clean:
        """Check a write; what is wrong is named by its field."""
        _limit(batch)
        entities = [
            self._entity(entity, f"entities[{at}]") for at, entity in enumerate(batch.entities)
        ]
        # What comes with an entity is added as any observation is: also when the entity was there.
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
        return Clean(
            entities=_once(entities, lambda entity: entity.name),
            facts=_once(facts, _identity),
            links=_once(links, lambda link: link),
            observed=tuple(
                self.name(each.entity_name, f"observations[{at}].entityName")
                for at, each in enumerate(batch.observations)
            ),
        )

    def removal(self, removal: Removal) -> Clean:
        """Check a removal. Names stay as they were given, each with its canonical one.

        An entity that was stored before a secret was known, or under another spelling, must be
        removed by its old name, and the canonical one must stay then.
        """
        _limit(removal)
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
        return Clean(
            entities=tuple(NewEntity(name=name, entity_type="") for name in removal.entities),
            facts=_once([*facts, *_as_given(removal.observations)], _identity),
            links=tuple(links),
            canonical=tuple(canonical.items()),
        )

    def name(self, name: str, field: str) -> str:
        """Return a name as it is stored: canonical, without secrets."""
        text = self._text(name, field, NAME_BYTES_MAX)
        for _ in range(_PASSES_MAX):
            settled = canonical_name(text, self._root)
            if settled == text:
                return text
            # Another spelling may be longer, or look like a secret where this one did not.
            text = self._text(settled, field, NAME_BYTES_MAX)
        message = f"{field}: does not settle on one spelling"
        raise InvalidArgument(message, fix="use a shorter name", field=field)

    def names(self, name: str, field: str) -> list[str]:
        """Return the names that a caller may mean: as it is stored, and as it was given.

        An entity that was stored before a secret was known, or under another spelling, must still
        be found and removed by its old name.
        """
        return list(dict.fromkeys([self.name(name, field), name]))

    def origin(self, origin: Origin) -> Origin:
        """Check who writes, and in which run."""
        source = _checked(origin.source, "source", SOURCE_BYTES_MAX, is_empty_allowed=True)
        run = None if origin.run is None else self.name(origin.run, "run")
        return Origin(source=self._redactor.text(source), run=run)

    def _entity(self, entity: NewEntity, field: str) -> NewEntity:
        name = self.name(entity.name, f"{field}.name")
        kind = self._text(entity.entity_type, f"{field}.entityType", TYPE_BYTES_MAX)
        if self._is_checked(vocabulary.is_policy_entity, name, kind):
            vocabulary.check_entity(name, kind, field)
        return NewEntity(name=name, entity_type=kind)

    def _facts(
        self, observed: Iterable[NewObservations], word: str, *, is_new: bool = True
    ) -> list[Fact]:
        group = "observations" if is_new else "deletions"
        return [
            self._fact(name, content, f"{group}[{at}].{word}[{place}]", is_new=is_new)
            for at, each in enumerate(observed)
            for canonical in [self.name(each.entity_name, f"{group}[{at}].entityName")]
            for name in [canonical if is_new else each.entity_name]
            for place, content in enumerate(each.contents)
        ]

    def _fact(self, entity_name: str, content: str, field: str, *, is_new: bool = True) -> Fact:
        text = _checked(content, field, OBSERVATION_BYTES_MAX, is_empty_allowed=True)
        clean = envelope.redact(text, self._redactor)
        is_checked = is_new and self._is_checked(envelope.is_meant, clean)
        found = envelope.check(clean, field) if is_checked else envelope.parse(clean)
        fingerprint = found.fingerprint if found else text_fingerprint(clean)
        return Fact(entity_name=entity_name, content=clean, fingerprint=fingerprint, envelope=found)

    def _link(self, link: Link, field: str, *, is_new: bool) -> Link:
        clean = Link(
            from_name=self.name(link.from_name, f"{field}.from"),
            to_name=self.name(link.to_name, f"{field}.to"),
            relation_type=self._text(link.relation_type, f"{field}.relationType", TYPE_BYTES_MAX),
        )
        if is_new and self._is_checked(vocabulary.RELATIONS.__contains__, clean.relation_type):
            vocabulary.check_relation(clean.from_name, clean.relation_type, clean.to_name, field)
        return clean

    def _is_checked(self, is_of_policy: Callable[..., bool], *given: str) -> bool:
        """Say whether to check something, given what decides if it belongs to the policy."""
        if self._validation is Validation.POLICY:
            return is_of_policy(*given)
        return self._validation is Validation.STRICT

    def _text(self, text: str, field: str, bytes_max: int) -> str:
        return self._redactor.text(_checked(text, field, bytes_max))


def _checked(text: str, field: str, bytes_max: int, *, is_empty_allowed: bool = False) -> str:
    """Refuse what no store keeps."""
    if not isinstance(text, str):
        message = f"{field}: must be a text"
        raise InvalidArgument(message, fix="send a string", field=field)
    if "\0" in text:
        message = f"{field}: contains a NUL character, which no database keeps"
        raise InvalidArgument(message, fix="take U+0000 out of it", field=field)
    if not is_empty_allowed and not text.strip():
        message = f"{field}: is empty"
        raise InvalidArgument(message, fix="give it a text", field=field)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as exc:
        message = f"{field}: has half of a surrogate pair, which is no text"
        raise InvalidArgument(message, fix="send valid Unicode", field=field) from exc
    if size > bytes_max:
        message = f"{field}: has {size} bytes, more than the {bytes_max} that are kept"
        raise InvalidArgument(message, fix="shorten it, or keep it in a file", field=field)
    return text


def _as_given(observed: Iterable[NewObservations]) -> list[Fact]:
    """Return observations as they were given, secrets and all; they were checked before."""
    return [
        Fact(
            entity_name=each.entity_name,
            content=content,
            fingerprint=found.fingerprint if found else text_fingerprint(content),
            envelope=found,
        )
        for each in observed
        for content in each.contents
        for found in [envelope.parse(content)]
    ]


def text_fingerprint(content: str) -> str:
    """Return what says whether two plain observations are the same."""
    return hashlib.sha256(content.encode()).hexdigest()


def _limit(asked: Batch | Removal) -> None:
    entities = asked.entities
    items = len(entities) + len(asked.relations) + sum(len(o.contents) for o in asked.observations)
    items += sum(len(e.observations) for e in entities if isinstance(e, NewEntity))
    if items > BATCH_ITEMS_MAX:
        message = f"{items} items in one call, more than {BATCH_ITEMS_MAX}"
        raise InvalidArgument(message, fix="send them in several calls")


def _identity(fact: Fact) -> tuple[str, str]:
    return fact.entity_name, fact.fingerprint


def _once(items: Iterable[T], key: Callable[[T], object]) -> tuple[T, ...]:
    """Return the first of each, in order."""
    found: dict[object, T] = {}
    for item in items:
        found.setdefault(key(item), item)
    return tuple(found.values())
