"""Fix evidence: rank fixes by how often they were verified. Pure functions."""

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
    """A recorded fix and its outcomes."""

    name: str
    node_id: int
    #: Issues that it resolves or mitigates.
    issues: tuple[str, ...]
    strategy: str
    #: `applied` or `proposed`; empty if unknown.
    result: str
    #: Numbers of outcomes: successful, partially effective, failed.
    verified: int
    partial: int
    failed: int
    #: When and how it was last verified as successful.
    last_verified_at: str | None
    verified_by: str | None
    #: The time of its newest observation.
    last_seen_at: str
    #: Names of the documents that it is derived from.
    docs: tuple[str, ...]

    @property
    def tried(self) -> int:
        """Return the number of recorded outcomes."""
        return self.verified + self.partial + self.failed


def known_fix(entity: Entity, issues: Sequence[str], docs: Sequence[str]) -> KnownFix:
    """Summarise the observations of a fix."""
    facts = [(each, found) for each in entity.observations if (found := parse(each.content))]
    applied = [found.data for _, found in facts if found.kind == "fix.apply"]
    outcomes = [(each, found) for each, found in facts if found.kind == "fix.outcome"]
    by_status: dict[str, list[tuple[Observation, Envelope]]] = {}
    for each, found in outcomes:
        by_status.setdefault(str(found.data.get("status")), []).append((each, found))
    successes = by_status.get("verified_successful", [])
    seen_at, last = max(
        ((observed_at(each), found) for each, found in successes),
        key=lambda pair: parse_time(pair[0]),
        default=(None, None),
    )
    results = [str(data.get("result", "")) for data in applied]
    return KnownFix(
        name=entity.name,
        node_id=entity.id,
        issues=tuple(issues),
        strategy=str(applied[-1].get("strategy", "")) if applied else _plain_text(entity),
        result="applied" if "applied" in results else "".join(results[-1:]),
        verified=len(successes),
        partial=len(by_status.get("partially_effective", [])),
        failed=len(by_status.get("failed", [])),
        last_verified_at=seen_at,
        verified_by=str(last.data.get("verificationMethod", "")) if last else None,
        last_seen_at=max(
            [entity.created_at, *map(observed_at, entity.observations)],
            key=parse_time,
        ),
        docs=tuple(docs),
    )


def ranked(fixes: Iterable[KnownFix]) -> tuple[KnownFix, ...]:
    """Return the fixes, best first.

    Ordered by successes, then success rate, then recency. Fixes that only failed come after
    untested ones.
    """
    return tuple(sorted(fixes, key=_ranking_key, reverse=True))


def _ranking_key(fix: KnownFix) -> tuple[object, ...]:
    return (
        fix.verified,
        fix.verified / fix.tried if fix.tried else 0.0,
        fix.partial - fix.failed,
        parse_time(fix.last_verified_at),
        fix.result == "applied",
        parse_time(fix.last_seen_at),
        fix.node_id,
    )


def observed_at(observation: Observation) -> str:
    """Return when something was observed, or else when it was stored."""
    observed = observation.ts
    return (
        observed
        if observed is not None and parse_time(observed) > _LONG_AGO
        else observation.created_at
    )


def parse_time(text: str | None) -> datetime:
    """Return a comparable time; the earliest possible one if the text is not a time."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return _LONG_AGO
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _plain_text(entity: Entity) -> str:
    """Return the last plain observation of a fix without an envelope."""
    plain = [each.content for each in entity.observations if each.kind is None]
    return plain[-1] if plain else ""
