"""Calls of @once by value: typed arguments, later parameters, methods, and errors of every kind."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from onceward.client import Onceward
from onceward.errors import (
    InvalidArgument,
    KeyInFlight,
    KeyReused,
    NotCanonical,
    OncewardError,
    RecordedFailure,
)
from onceward.outcomes import OutcomeState
from onceward.outcomes.error_encoding import MESSAGE_CHARS_MAX, UNREADABLE
from onceward.stores import Transaction
from tests.support.counted_charges import Shop, shop

__all__ = ["shop"]


class Currency(enum.Enum):
    EUR = "EUR"


@dataclass
class Money:
    amount: Decimal
    currency: Currency


class Order(BaseModel):
    id: int
    at: datetime
    price: Money


def test_h51_typed_arguments_are_compared_by_value(ow: Onceward, shop: Shop) -> None:
    """Equal arguments are one call, however they are spelled; any field that differs is another."""

    @ow.once()
    def charge(order: Order, tags: set[str]) -> Order:
        shop.charge(order.id, len(tags))
        return order

    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    zone = timezone(timedelta(hours=2))
    price, same = Money(Decimal("1.50"), Currency.EUR), Money(Decimal("1.5"), Currency.EUR)
    first = charge(Order(id=1, at=noon, price=price), {"a", "b"})
    again = charge(Order(id=1, at=noon.astimezone(zone), price=same), {"b", "a"})
    assert first == again == Order(id=1, at=noon, price=price)
    assert shop.charged == [1]
    charge(Order(id=1, at=noon, price=price), {"a"})
    charge(Order(id=1, at=noon, price=Money(Decimal(2), Currency.EUR)), {"a"})
    assert shop.charged == [1, 1, 1]
    with pytest.raises(NotCanonical, match=r"charge\.order\.at: is a datetime without a zone"):
        charge(Order(id=1, at=noon.replace(tzinfo=None), price=price), set())


def test_a_class_inside_a_function_is_a_result(ow: Onceward) -> None:
    """An annotation that is text and names a local class is resolved where it stands."""

    class Receipt(BaseModel):
        id: int

    @ow.once(key="k")
    def charge() -> Receipt | None:
        return Receipt(id=1)

    assert charge() == charge() == Receipt(id=1)


def test_an_annotation_that_cannot_be_resolved_means_plain_json(ow: Onceward) -> None:
    """It is no error, neither at decoration nor at the call."""

    @ow.once(key="k")
    def charge() -> Nowhere:  # type: ignore[name-defined]  # noqa: F821 - that is the point
        return {"id": 1}

    assert charge() == charge() == {"id": 1}


def test_an_annotation_is_resolved_at_the_first_call(ow: Onceward) -> None:
    """A class that is defined after the function is known in time."""

    @ow.once(key="k")
    def charge() -> Late:
        return Late(id=1)

    assert charge() == charge() == Late(id=1)


class Late(BaseModel):
    id: int


def test_h51_a_parameter_that_was_added_changes_no_key(ow: Onceward, shop: Shop) -> None:
    """While a later parameter has the value of before, earlier calls are found."""

    @ow.once(scope="shop.charge")
    def charge(order: int) -> Any:
        return shop.charge(order)

    @ow.once(scope="shop.charge", key_since={"currency": Currency.EUR})
    def charge_in(order: int, currency: Currency | str = "EUR") -> Any:
        return shop.charge(order, len(str(currency)))

    assert charge(1) == charge_in(1) == charge_in(1, "EUR") == charge_in(1, currency=Currency.EUR)
    assert shop.charged == [1]
    charge_in(1, "USD")
    assert shop.charged == [1, 1]

    @ow.once(scope="named", key=lambda order, **_: f"k{order}", key_since={"currency": "EUR"})
    def charge_named(order: int, currency: str = "EUR") -> Any:
        return shop.charge(order, len(currency))

    charge_named(1)
    with pytest.raises(KeyReused):
        charge_named(1, currency="USD")
    with pytest.raises(InvalidArgument, match="there is no parameter 'cents'"):
        ow.once(key_since={"cents": 1})(charge_named)


def test_methods_need_a_key(ow: Onceward, shop: Shop) -> None:
    """`self` is no part of a key, so that a method without key= is refused at decoration."""

    class Cashier:
        @ow.once(key=lambda _self, order: f"charge#{order}")
        def charge(self, order: int) -> Any:
            return shop.charge(order)

        @classmethod
        @ow.once(scope="refund", key=lambda _cls, order: f"refund#{order}")
        def refund(cls, order: int, tx: Transaction) -> Any:
            assert tx is not None
            return shop.charge(order)

    assert Cashier().charge(1) == Cashier().charge(1)
    assert Cashier.refund(1) == Cashier.refund(1)  # type: ignore[call-arg]
    assert shop.charged == [1, 1]
    for made in (lambda self: self, lambda cls, *_: cls):
        with pytest.raises(InvalidArgument, match="a method needs one"):
            ow.once()(made)


def test_generators_are_rejected_at_decoration(ow: Onceward) -> None:
    """A generator has no single result, with a key or without."""

    def numbers() -> Iterator[int]:
        yield 1

    async def numbers_async() -> AsyncIterator[int]:
        yield 1

    for made in (numbers, numbers_async):
        for key in (None, "k"):
            with pytest.raises(InvalidArgument, match="a generator"):
                ow.once(key=key)(made)


# --- failures -------------------------------------------------------------------------------------


class Declined(Exception):
    """Made from what it keeps."""

    def __init__(self, code: str, tries: int) -> None:
        super().__init__(code, tries)
        self.code = code

    def __str__(self) -> str:
        return f"declined with {self.code}"


class Blocked(Declined):
    pass


class Formatted(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, code: str) -> None:
        super().__init__(f"refused with {code}")


RAISED: list[tuple[Exception, Any, type[Exception]]] = [
    (Declined("stolen", 3), Declined, Declined),
    (Blocked("stolen", 3), (ValueError, Declined), Blocked),
    (ValueError("x"), ValueError, ValueError),
    (KeyError("x"), KeyError, KeyError),
    (ValueError(object()), ValueError, RecordedFailure),
    (Formatted("x"), Formatted, RecordedFailure),
    (Declined("stolen", 3), ValueError, RecordedFailure),
]


@pytest.mark.parametrize("with_tx", [False, True])
def test_classes_in_raises_are_raised_again(ow: Onceward, with_tx: bool) -> None:
    """With their own arguments, and the recorded failure as their cause; others as before."""
    for number, (error, raises, kind) in enumerate(RAISED):
        check_it_is_raised_again(ow, f"k{number}", error, raises, kind, with_tx=with_tx)


def check_it_is_raised_again(  # noqa: PLR0913 - a case and where it is tried
    ow: Onceward,
    key: str,
    error: Exception,
    raises: Any,
    kind: type[Exception],
    *,
    with_tx: bool,
) -> None:
    ran: list[int] = []

    def work() -> None:
        ran.append(1)
        raise error

    def work_tx(tx: Transaction) -> None:
        assert tx is not None
        work()

    call: Any = ow.once(key=key, raises=raises)(work_tx if with_tx else work)
    with pytest.raises(type(error)) as first:
        call()
    assert first.value is error
    for _ in range(2):
        with pytest.raises(kind) as again:
            call()
        assert type(again.value) is kind
        if kind is not RecordedFailure:
            assert (again.value.args, str(again.value)) == (error.args, str(error))
            assert isinstance(again.value.__cause__, RecordedFailure)
    assert ran == [1]


def test_a_replayed_failure_is_never_retryable(ow: Onceward) -> None:
    """A class that tells its caller to try again is not raised from a record."""

    @ow.once(key="k", raises=KeyInFlight)
    def work() -> None:
        raise KeyInFlight

    with pytest.raises(KeyInFlight):
        work()
    with pytest.raises(RecordedFailure) as again:
        work()
    assert not again.value.retryable


def test_raises_takes_classes(ow: Onceward) -> None:
    """Anything else is refused at once."""
    wrong: Any = ("ValueError",)
    with pytest.raises(InvalidArgument, match="raises: must be classes"):
        ow.once(raises=wrong)


class Liar(str):
    __slots__ = ()

    def __getitem__(self, at: Any) -> Any:
        raise ZeroDivisionError

    def encode(self, *_: Any) -> bytes:
        raise ZeroDivisionError


class Evil(Exception):
    def __init__(self, text: Any) -> None:
        self.text = text

    def __str__(self) -> str:
        if isinstance(self.text, BaseException):
            raise self.text
        return self.text  # type: ignore[no-any-return]

    @property
    def data(self) -> object:
        raise ZeroDivisionError


class Careless(OncewardError):
    def __init__(self) -> None:
        pass


class Heavy(Exception):
    data = "x" * 1_000_000


Odd = type("Odd", (Exception,), {"__module__": "half \ud800"})


UNREADABLE_ERRORS: list[tuple[Exception, str]] = [
    (Evil(ZeroDivisionError()), UNREADABLE),
    (Evil(RecursionError()), UNREADABLE),
    (Evil(7), UNREADABLE),
    (Evil("half \ud800"), "half ?"),
    (Evil("nul \0"), "nul \0"),
    (Evil("x" * 10_000_000), "x" * MESSAGE_CHARS_MAX),
    (Evil(Liar("fine")), "fine"),
    (Careless(), ""),
    (Heavy("heavy"), "heavy"),
    (Odd("odd"), "odd"),
]


@pytest.mark.parametrize("with_tx", [False, True])
def test_an_error_that_raises_or_lies_is_a_recorded_failure(ow: Onceward, with_tx: bool) -> None:
    """Whatever an error does when it is looked at, its work failed and does not run again."""
    for number, (error, message) in enumerate(UNREADABLE_ERRORS):
        check_it_is_recorded(ow, f"k{number}", error, message, with_tx=with_tx)
    assert {each.state for each in ow.outcomes.list()} == {OutcomeState.FAILED}


def check_it_is_recorded(
    ow: Onceward, key: str, error: Exception, message: str, *, with_tx: bool
) -> None:
    shop = Shop()

    def work() -> None:
        shop.charge(1)
        raise error

    def work_tx(tx: Transaction) -> None:
        assert tx is not None
        work()

    call: Any = ow.once(key=key)(work_tx if with_tx else work)
    with suppress(type(error)):
        call()
    with pytest.raises(RecordedFailure) as again:
        call()
    assert (again.value.failure_message, again.value.data) == (message, None)
    assert shop.charged == [1]
