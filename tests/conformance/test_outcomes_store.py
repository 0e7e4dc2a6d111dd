"""@once and its store: inside other transactions, and while the store is away."""

from typing import Any

import pytest

from onceward.errors import OutcomeUnknown, StoreUnavailable, WriterHeld
from onceward.handle import Onceward
from onceward.outcomes import OutcomeState
from onceward.testing.moving_time import MovingTime


class Shop:
    """Charges, and counts how often it did."""

    def __init__(self) -> None:
        self.charged: list[Any] = []

    def charge(self, order: Any, amount: int = 10) -> dict[str, Any]:
        self.charged.append(order)
        return {"order": order, "amount": amount, "number": len(self.charged)}


@pytest.fixture
def shop() -> Shop:
    return Shop()


def only(ow: Onceward) -> OutcomeState:
    (found,) = ow.outcomes.list()
    return found.state


@pytest.fixture
def table(ow: Onceward) -> Onceward:
    with ow.transaction() as tx:
        tx.execute("create table effects (id bigint primary key)")
    return ow


def test_inside_a_writing_transaction_sqlite_refuses_it_at_once(
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
    write_query = ow.store.write_query
    answers: list[object] = []

    def unreliable(name: str, /, **params: Any) -> Any:
        answers.append(name)
        if len(answers) == 2:
            raise StoreUnavailable
        result = write_query(name, **params)
        if len(answers) == 3:
            raise OutcomeUnknown  # Committed, and the answer was lost.
        return result

    monkeypatch.setattr(ow.store, "write_query", unreliable)
    assert charge(1) == charge(1)
    assert (len(answers), shop.charged) == (4, [1])


def test_a_result_that_cannot_be_recorded_is_unknown(
    ow: Onceward, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It happened, and nobody but the caller knows; so it says."""
    charge = ow.once(lease_seconds=0.1)(shop.charge)
    write_query = ow.store.write_query
    answers: list[object] = []

    def broken(name: str, /, **params: Any) -> Any:
        answers.append(name)
        if len(answers) > 1:
            raise StoreUnavailable
        return write_query(name, **params)

    monkeypatch.setattr(ow.store, "write_query", broken)
    with pytest.raises(OutcomeUnknown, match="ran, and could not be recorded"):
        charge(1)
    assert shop.charged == [1]


def test_a_claim_whose_answer_was_lost_is_asked_for_again(
    ow: Onceward, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same owner is granted it again, so nothing is left behind that nobody runs."""
    charge = ow.once()(shop.charge)
    write_query = ow.store.write_query
    answers: list[object] = []

    def unreliable(name: str, /, **params: Any) -> Any:
        result = write_query(name, **params)
        answers.append(result)
        if len(answers) == 1:
            raise OutcomeUnknown
        return result

    monkeypatch.setattr(ow.store, "write_query", unreliable)
    charge(1)
    (found,) = ow.outcomes.list()
    assert (found.state, found.fence) == (OutcomeState.DONE, 2)
