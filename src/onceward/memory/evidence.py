"""Evidence: which fixes worked, how often, and which to try first. Pure; knows no store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from onceward.memory.envelope import Envelope, parse
from onceward.memory.models import Entity, Observation

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownFix:
    """A fix that was recorded, and how it turned out."""

    name: str
    node_id: int
    #: The issues that it resolves or mitigates.
    issues: tuple[str, ...]
    strategy: str
    #: `applied` or `proposed`; empty if nobody said.
    result: str
    #: How often it was found to work, in part, and not at all.
    verified: int
    partial: int
    failed: int
    #: When and how it was last found to work.
    last_verified_at: str | None
    verified_by: str | None
    #: When anything was last said about it.
    last_seen_at: str
    #: Names of the documents it is derived from.
    docs: tuple[str, ...]

    @property
    def tried(self) -> int:
        """Return how often somebody looked whether it works."""
        return self.verified + self.partial + self.failed


def known_fix(entity: Entity, issues: Sequence[str], docs: Sequence[str]) -> KnownFix:
    """Read off a fix what is known about it."""
    facts = [(each, found) for each in entity.observations if (found := parse(each.content))]
    applied = [found.data for _, found in facts if found.kind == "fix.apply"]
    outcomes = [(each, found) for each, found in facts if found.kind == "fix.outcome"]
    by_status: dict[str, list[tuple[Observation, Envelope]]] = {}
    for each, found in outcomes:
        by_status.setdefault(str(found.data.get("status")), []).append((each, found))
    successes = by_status.get("verified_successful", [])
    seen_at, last = max(
        ((seen(each), found) for each, found in successes),
        key=lambda pair: moment(pair[0]),
        default=(None, None),
    )
    results = [str(data.get("result", "")) for data in applied]
    return KnownFix(
        name=entity.name,
        node_id=entity.id,
        issues=tuple(issues),
        strategy=str(applied[-1].get("strategy", "")) if applied else _said(entity),
        result="applied" if "applied" in results else "".join(results[-1:]),
        verified=len(successes),
        partial=len(by_status.get("partially_effective", [])),
        failed=len(by_status.get("failed", [])),
        last_verified_at=seen_at,
        verified_by=str(last.data.get("verificationMethod", "")) if last else None,
        last_seen_at=max(
            [entity.created_at, *map(seen, entity.observations)],
            key=moment,
        ),
        docs=tuple(docs),
    )


def ranked(fixes: Iterable[KnownFix]) -> tuple[KnownFix, ...]:
    """Return the fixes, the best first.

    What was found to work most often, then what worked most reliably, then what worked or was seen
    last. What only ever failed comes after what nobody has tried.
    """
    return tuple(sorted(fixes, key=_worth, reverse=True))


def _worth(fix: KnownFix) -> tuple[object, ...]:
    return (
        fix.verified,
        fix.verified / fix.tried if fix.tried else 0.0,
        fix.partial - fix.failed,
        moment(fix.last_verified_at),
        fix.result == "applied",
        moment(fix.last_seen_at),
        fix.node_id,
    )


def seen(observation: Observation) -> str:
    """Return when something was observed, or else when it was stored."""
    said = observation.ts
    return said if said is not None and moment(said) > _LONG_AGO else observation.created_at


def moment(text: str | None) -> datetime:
    """Return a time that can be compared; long ago if it is none."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return _LONG_AGO
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _said(entity: Entity) -> str:
    """Return what stands on a fix that has no envelope: its last plain text."""
    plain = [each.content for each in entity.observations if each.kind is None]
    return plain[-1] if plain else ""
