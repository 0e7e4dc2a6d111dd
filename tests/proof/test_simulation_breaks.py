"""Simulated schedules against broken code: each break must be found within a few hundred seeds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceward.cursors.lease import Lease
from onceward.retries.parked import ParkedMessages
from onceward.stores.queries import Engine, query
from onceward.stores.sqlite import transaction as transactions
from onceward.stores.sqlite.transaction import SqliteTransaction
from onceward.workers.message_processing import MessageProcessor
from onceward.workers.poison_guard import PoisonGuard
from tests.proof.simulation.campaign import World, run
from tests.proof.simulation.leases import Leases
from tests.proof.simulation.parked import Parked

Patch = pytest.MonkeyPatch
SEEDS = range(300)
FENCE = "and lease_owner = :worker and lease_epoch = :epoch"
ONLY_OWN = "and (lease_owner is not :worker or lease_epoch = :epoch)"


def spoil(monkeypatch: Patch, name: str, old: str, new: str) -> None:
    """Replace a part of one query."""
    assert old in query("sqlite", name), f"{name} has changed: {old!r} is not in it"

    def spoilt(engine: Engine, wanted: str) -> str:
        text = query(engine, wanted)
        return text.replace(old, new) if wanted == name else text

    monkeypatch.setattr(transactions, "query", spoilt)


@pytest.mark.parametrize(
    ("kind", "name", "old", "new"),
    [
        pytest.param(Leases, "cursor_checkpoint", FENCE, "", id="no-fence"),
        pytest.param(
            Leases, "cursor_checkpoint", "and lease_epoch = :epoch", "", id="fence-without-epoch"
        ),
        pytest.param(Leases, "cursor_checkpoint", FENCE, ONLY_OWN, id="fence-against-oneself"),
        pytest.param(
            Leases,
            "cursor_move",
            "lease_epoch = lease_epoch + 1",
            "lease_epoch = 0",
            id="epoch-falls",
        ),
        pytest.param(
            Leases,
            "cursor_acquire",
            "lease_epoch = lease_epoch + 1",
            "lease_epoch = lease_epoch",
            id="epoch-stays",
        ),
        pytest.param(
            Leases, "cursor_acquire", "or lease_expires_boot < :now", "", id="no-takeover"
        ),
        pytest.param(Parked, "cursor_checkpoint", FENCE, "", id="parked-no-fence"),
        pytest.param(
            Parked, "parked_insert", "cast(:alone as boolean) or", "true or", id="all-are-heads"
        ),
        pytest.param(
            Parked, "parked_promote", "is_head = true", "is_head = is_head", id="no-next-head"
        ),
        pytest.param(
            Parked, "parked_blocked", "not alone and is_head", "false", id="keys-do-not-block"
        ),
        pytest.param(
            Parked,
            "parked_due",
            "due_seconds < :now\n",
            "due_seconds < :now + 5\n",
            id="tried-too-early",
        ),
        pytest.param(
            Parked,
            "discarded_restore_parked",
            "where raw is not null",
            "where false",
            id="undo-restores-nothing",
        ),
        pytest.param(
            Parked,
            "parked_redrive",
            "values (:cursor,",
            "values (:cursor || '?',",
            id="redriven-elsewhere",
        ),
        pytest.param(
            Parked,
            "parked_reschedule",
            "attempt = :attempt,",
            "attempt = attempt,",
            id="attempts-never-end",
        ),
    ],
)
def test_a_broken_statement_is_found(
    kind: type[World], name: str, old: str, new: str, monkeypatch: Patch
) -> None:
    """Whichever part of it was taken out."""
    spoil(monkeypatch, name, old, new)
    with pytest.raises(AssertionError) as found:
        run(kind, SEEDS)
    assert "REPRO: " in found.value.__notes__[-1]


def _commits_instead(transaction: SqliteTransaction) -> None:
    if transaction._writing and transaction._connection.in_transaction:
        transaction._connection.execute("commit")
    if transaction._writing:
        transaction._end()


def _forgets(*_: object, **__: object) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("kind", "owner", "name", "instead"),
    [
        pytest.param(Leases, SqliteTransaction, "roll_back", _commits_instead, id="lost-rollback"),
        pytest.param(
            Parked, SqliteTransaction, "roll_back", _commits_instead, id="parked-rollback"
        ),
        pytest.param(Leases, Lease, "_mark_ambiguous", _forgets, id="ambiguity-forgotten"),
        pytest.param(Leases, Lease, "checkpoint", _forgets, id="no-checkpoint"),
        pytest.param(Parked, Lease, "checkpoint", _forgets, id="parked-no-checkpoint"),
        pytest.param(Parked, MessageProcessor, "_is_broken", _forgets, id="busy-store-is-blamed"),
        pytest.param(Parked, PoisonGuard, "note_start", _forgets, id="deaths-are-not-noted"),
    ],
)
def test_a_broken_function_is_found(
    kind: type[World],
    owner: type,
    name: str,
    instead: Callable[..., None],
    monkeypatch: Patch,
) -> None:
    """A rollback that keeps, an ambiguity or death that is not noted, a checkpoint that is none."""
    monkeypatch.setattr(owner, name, instead)
    with pytest.raises(AssertionError):
        run(kind, SEEDS)


def test_a_message_that_is_parked_nowhere_is_found(monkeypatch: Patch) -> None:
    """The cursor has passed it, and it has no letter."""
    park = ParkedMessages.park

    def forgetful(self: ParkedMessages, tx: object, message: object, **named: object) -> object:
        answer = park(self, tx, message, **named)  # type: ignore[arg-type]
        tx.query("parked_delete", cursor=message.cursor, positions=f'["{message.position}"]')  # type: ignore[attr-defined]
        return answer

    monkeypatch.setattr(ParkedMessages, "park", forgetful)
    with pytest.raises(AssertionError, match="passed and nowhere"):
        run(Parked, SEEDS)
