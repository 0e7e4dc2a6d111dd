"""@once and its store: inside other transactions, and while the store is away."""

import sys
from collections.abc import Container
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import OutcomeUnknown, StoreUnavailable, WriterHeld
from onceward.outcomes import OutcomeState
from onceward.testing.moving_time import MovingTime
from tests.support.counted_charges import Shop, only, shop

__all__ = ["shop"]


@pytest.fixture
def table(ow: Onceward) -> Onceward:
    with ow.transaction() as tx:
        tx.execute("create table effects (id bigint primary key)")
    return ow


def trouble(
    ow: Onceward,
    monkeypatch: pytest.MonkeyPatch,
    *,
    away: Container[int] = (),
    lost: Container[int] = (),
) -> list[str]:
    """Let the store be away at these writes, and lose the answers of those; return what it did."""
    write_query = ow.store.write_query
    asked: list[str] = []

    def unreliable(name: str, /, **params: Any) -> Any:
        asked.append(name)
        number = len(asked)
        if number in away:
            raise StoreUnavailable
        result = write_query(name, **params)
        if number in lost:
            raise OutcomeUnknown  # Committed, and the answer was lost.
        return result

    monkeypatch.setattr(ow.store, "write_query", unreliable)
    return asked


def test_inside_a_writing_transaction_sqlite_rejects_it_at_once(
    table: Onceward, shop: Shop
) -> None:
    """There is one writer, and waiting would be for oneself; nothing has run or is recorded."""
    charge = table.once()(shop.charge)
    with table.transaction() as tx:
        tx.execute("insert into effects values (0)")
        if table.store.engine == "sqlite":
            with pytest.raises(WriterHeld):
                charge(1)
            assert table.outcomes.list() == []
        else:
            charge(1)
            assert only(table) is OutcomeState.DONE


def test_a_function_that_writes_in_its_callers_transaction_ends_with_it(
    table: Onceward, ow_time: MovingTime
) -> None:
    """Committed, it is done; rolled back, its other effects are unknown and it is ambiguous."""

    @table.once()
    def charge(order: int) -> int:
        with table.transaction() as tx:
            tx.execute("insert into effects values (?)", [order])
        return order

    with table.transaction():
        charge(1)
    assert only(table) is OutcomeState.DONE
    with pytest.raises(ZeroDivisionError), table.transaction():
        charge(2)
        raise ZeroDivisionError
    ow_time.advance(seconds=61)
    found = {each.state for each in table.outcomes.list()}
    if table.store.engine == "sqlite":
        assert found == {OutcomeState.DONE, OutcomeState.AMBIGUOUS}
    else:
        assert found == {OutcomeState.DONE}  # Recorded beside the transaction, on its own.


def test_a_result_is_recorded_when_the_store_is_back(
    ow: Onceward, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work is over and its result is known: that is worth insisting on for a while."""
    charge = ow.once()(shop.charge)
    asked = trouble(ow, monkeypatch, away=[2], lost=[3])
    assert charge(1) == charge(1)
    assert (len(asked), shop.charged) == (4, [1])


def test_a_result_that_cannot_be_recorded_is_unknown(
    ow: Onceward, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It happened, and only the caller knows; the error says so."""
    charge = ow.once(lease_seconds=0.1)(shop.charge)
    trouble(ow, monkeypatch, away=range(2, sys.maxsize))
    with pytest.raises(OutcomeUnknown, match="the call ended, but the store did not"):
        charge(1)
    assert shop.charged == [1]


def test_a_claim_whose_answer_was_lost_is_asked_for_again(
    ow: Onceward, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same owner is granted it again, so no claim is left without a runner."""
    charge = ow.once()(shop.charge)
    trouble(ow, monkeypatch, lost=[1])
    charge(1)
    (found,) = ow.outcomes.list()
    assert (found.state, found.fence) == (OutcomeState.DONE, 2)
