"""Workers whose handlers run in transactions of Django's: rows and checkpoint in one commit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.db import connections

from onceward.client import Onceward
from onceward.errors import OutcomeUnknown, SqlFailed, StoreUnavailable
from onceward.stores import Provider, Transaction, provided
from onceward.workers import App, Message
from tests.support.list_source import ListSource
from tests.support.orm_shops import TABLE, DjangoOrder, django_database, django_provider
from tests.support.running_worker import drain

Shop = tuple[Onceward, str]


class Undone(Exception):
    """Leaves a block."""


@pytest.fixture
def shop(ow: Onceward, ow_url: str) -> Iterator[Shop]:
    with ow.transaction() as tx:
        tx.execute(TABLE)
    alias = django_database(ow_url)
    yield ow, alias
    connections[alias].close()


def numbers(ow: Onceward) -> list[int]:
    return [row[0] for row in ow.store.select("select number from orders order by number")]


def consumer(
    ow: Onceward, provider: Provider, handler: Callable[..., object], **options: Any
) -> App:
    app = App(ow, transaction=provider)
    app.consumer("orders", source=ListSource(1, 2, 3), order="none", **options)(handler)
    return app


@pytest.mark.parametrize("batch", [None, 2])
def test_h47_a_handler_of_a_framework_commits_with_its_checkpoint(
    shop: Shop, batch: int | None
) -> None:
    """A handler without `tx` writes by its ORM; its rows and the cursor move in one commit."""
    ow, alias = shop

    def handle(messages: Any) -> None:
        for each in messages if batch else [messages]:
            DjangoOrder(number=each.data).save(using=alias, force_insert=True)

    drain(consumer(ow, django_provider(alias), handle, batch=batch))
    assert numbers(ow) == [1, 2, 3]
    assert ow.cursors.show("orders").position == "3"


def test_h47_a_handler_that_fails_leaves_no_row_of_its_orm(shop: Shop) -> None:
    """Its message is parked for another attempt; those around it are done."""
    ow, alias = shop

    def handle(message: Message, tx: Transaction) -> None:
        DjangoOrder(number=message.data).save(using=alias, force_insert=True)
        tx.execute("update orders set note = 'seen' where number = ?", [message.data])
        if message.data == 2:
            raise Undone

    drain(consumer(ow, django_provider(alias), handle))
    assert numbers(ow) == [1, 3]
    assert ow.cursors.show("orders").position == "3"


def test_h47_a_worker_that_was_replaced_leaves_no_row_of_its_orm(shop: Shop) -> None:
    """The checkpoint is refused inside the framework's transaction, which rolls back."""
    ow, alias = shop
    seen: list[int] = []

    def handle(message: Message) -> None:
        DjangoOrder(number=message.data).save(using=alias, force_insert=True)
        seen.append(message.data)
        if seen == [1]:
            raise_epoch(alias)

    drain(consumer(ow, django_provider(alias), handle))
    assert seen[:2] == [1, 1]
    assert numbers(ow) == [1, 2, 3]


def raise_epoch(alias: str) -> None:
    """Take the cursor away, in the only transaction that can write now, and give it back."""
    with connections[alias].cursor() as cursor:
        cursor.execute("update cursor_positions set lease_epoch = lease_epoch + 1")


def test_h47_an_error_of_the_frameworks_commit_is_unknown(shop: Shop) -> None:
    """The worker stops at the message, looks, and goes on from what was committed."""
    ow, alias = shop
    failures = iter([True])
    seen: list[int] = []

    @contextmanager
    def provider() -> Iterator[Any]:
        with django_provider(alias)() as raw:
            yield raw
        if next(failures, False):
            message = "the answer was lost"
            raise ConnectionError(message)

    def handle(message: Message) -> None:
        seen.append(message.data)
        DjangoOrder(number=message.data).save(using=alias, force_insert=True)

    app = consumer(ow, provider, handle)
    drain(app)
    drain(app)
    assert seen == [1, 2, 3]
    assert numbers(ow) == [1, 2, 3]
    with pytest.raises(OutcomeUnknown), provided(ow.store, _lost(django_provider(alias))):
        pass


def _lost(provider: Provider) -> Provider:
    @contextmanager
    def losing() -> Iterator[Any]:
        with provider() as raw:
            yield raw
        raise ConnectionError

    return losing


def test_h47_a_provider_that_cannot_open_costs_no_message_an_attempt(shop: Shop) -> None:
    """Database errors are no failed attempt; neither is a connection to another database."""
    ow, alias = shop
    is_away = [True]

    @contextmanager
    def provider() -> Iterator[Any]:
        if is_away[0]:
            is_away[0] = False
            message = "no route to host"
            raise ConnectionError(message)
        with django_provider(alias)() as raw:
            yield raw

    attempts: list[int] = []
    app = consumer(ow, provider, lambda message: attempts.append(message.attempt))
    drain(app)
    drain(app)
    assert attempts == [1, 1, 1]
    with pytest.raises(StoreUnavailable, match="is not a"), provided(ow.store, wrong):
        pass


@contextmanager
def wrong() -> Iterator[object]:
    """Give something that is no connection."""
    yield object()


def test_h47_a_provider_that_swallows_errors_is_found_out(shop: Shop) -> None:
    """A block that failed is never taken for one that was committed."""
    ow, alias = shop

    @contextmanager
    def swallowing() -> Iterator[Any]:
        with suppress(Undone), django_provider(alias)() as raw:
            yield raw

    with pytest.raises(SqlFailed, match="ended without an error"), provided(ow.store, swallowing):
        raise Undone
