"""App: declare the consumers of one store by decorators; `onceward worker module:app` runs them."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import orjson

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.cursors.models import (
    HEARTBEATS_PER_LEASE,
    LEASE_SECONDS,
    PositionMigrations,
    check_lease_seconds,
    check_name,
)
from onceward.errors import InvalidArgument
from onceward.retries import MESSAGES, Schedule
from onceward.stores import Provider
from onceward.workers.models import (
    BATCH_MESSAGES_MAX,
    IN_FLIGHT_MAX,
    PARKED_MAX,
    PARKED_MESSAGES_MAX,
    POISON_DEATHS,
    POISON_DEATHS_MAX,
    POLL_SECONDS,
    ConcurrencyLimits,
    Consumer,
    Decode,
    KeyOf,
    Order,
)
from onceward.workers.source_protocol import Partitions, Source
from onceward.workers.sources.table import Table

H = TypeVar("H", bound=Callable[..., Any])
R = TypeVar("R")
_FIELD: Final = re.compile(r"\{[A-Za-z_]\w*\}")
#: Maximum of each option that is a count.
_COUNTS_MAX: Final = {
    "batch": BATCH_MESSAGES_MAX,
    "max_in_flight": IN_FLIGHT_MAX,
    "max_in_flight_per_group": IN_FLIGHT_MAX,
    "parked_max": PARKED_MESSAGES_MAX,
    "poison_deaths": POISON_DEATHS_MAX,
}


class App:
    """The consumers of one program."""

    def __init__(
        self, store: Onceward | str | None = None, *, transaction: Provider | None = None
    ) -> None:
        """Use this store: an open one, a URL, or None for the default store.

        `transaction` opens a transaction of your framework and returns its driver's connection.
        Every handler then runs in such a transaction, with or without `tx`, and the cursor moves in
        its commit.
        """
        self._store = store
        self._transaction = transaction
        self._consumers: dict[str, Consumer] = {}

    @property
    def ow(self) -> Onceward:
        """Return the open store; a URL is opened at the first use."""
        if not isinstance(self._store, Onceward):
            self._store = open_handle(self._store)
        return self._store

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        """Return the consumers in the order of their declaration."""
        return tuple(self._consumers.values())

    def source_of(self, cursor: str) -> Source | None:
        """Return the source of a cursor; None if no consumer of this app reads it."""
        found = (each.source_of(cursor) for each in self.consumers)
        return next((source for source in found if source is not None), None)

    def once(self, **options: Any) -> Callable[[Callable[..., R]], Callable[..., R]]:  # noqa: ANN401 - those of `Onceward.once`
        """Make calls of a function idempotent like `ow.once`; opens the store at the first call."""

        def decorate(function: Callable[..., R]) -> Callable[..., R]:
            @functools.cache
            def decorated() -> Callable[..., R]:
                return self.ow.once(**options)(function)

            @functools.wraps(function)
            def call(*args: Any, **kwargs: Any) -> R:  # noqa: ANN401 - as the function
                return decorated()(*args, **kwargs)

            @functools.wraps(function)
            async def call_async(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the same
                return await cast("Any", decorated()(*args, **kwargs))

            is_async = inspect.iscoroutinefunction(function)
            return cast("Callable[..., R]", call_async) if is_async else call

        return decorate

    def consumer(  # noqa: PLR0913 - all of it named, and most of it optional
        self,
        name: str,
        *,
        source: Source | Partitions | Table,
        batch: int | None = None,
        order: Order = "cursor",
        key: KeyOf | None = None,
        decode: Decode = orjson.loads,
        retry: Schedule = MESSAGES,
        poison_deaths: int = POISON_DEATHS,
        lease_seconds: float = LEASE_SECONDS,
        heartbeat_seconds: float | None = None,
        version: int = 1,
        migrations: PositionMigrations | None = None,
        poll_seconds: float = POLL_SECONDS,
        max_in_flight: int | None = None,
        max_in_flight_per_group: int | Callable[[str], int] | None = None,
        group: Callable[[str], str] | None = None,
        parked_max: int = PARKED_MAX,
    ) -> Callable[[H], H]:
        """Declare a handler for the messages of a source, which it gets in order.

        The handler gets one `Message`, or a list of up to `batch`. With a parameter `tx` it also
        gets the transaction in which the cursor moves: its effects and the checkpoint are one
        commit, and a worker that lost its lease commits neither. If the source has partitions,
        `name` has a field, such as `distribution_niche_{id}`, and each partition has a cursor.

        `order` is what a failing message blocks: its whole `cursor`, later messages with the same
        `key` (a function of the message's data), or `none`. `retry` is its retry schedule, after
        which it becomes a dead letter. So does a message that the handler rejects with `Reject`, or
        that `poison_deaths` workers died at. A cursor with `parked_max` parked messages reads no
        new ones. `max_in_flight` limits how many partitions are processed at a time,
        `max_in_flight_per_group` how many of one `group`.
        """
        if isinstance(source, Table):
            source = source.on(self)
        is_partitioned = _is_partitioned(name, source)
        self._check_unused(name)
        _check_order(order, key)
        _check_counts(batch=batch, poison_deaths=poison_deaths, parked_max=parked_max)
        limits = _limits(max_in_flight, max_in_flight_per_group, group)
        heartbeat = _heartbeat_seconds(heartbeat_seconds, check_lease_seconds(lease_seconds))

        def declare(handler: H) -> H:
            _check_handler(handler)
            self._consumers[name] = Consumer(
                name=name,
                handler=handler,
                takes_tx="tx" in inspect.signature(handler).parameters,
                source=source,
                is_partitioned=is_partitioned,
                batch=batch,
                order=order,
                key=key,
                decode=decode,
                retry=retry,
                poison_deaths=poison_deaths,
                lease_seconds=lease_seconds,
                heartbeat_seconds=heartbeat,
                version=version,
                migrations=migrations or {},
                poll_seconds=poll_seconds,
                limits=limits,
                parked_max=parked_max,
                transaction=self._transaction,
            )
            return handler

        return declare

    def _check_unused(self, name: str) -> None:
        if name in self._consumers:
            message = f"name: this app has a consumer {name!r} already"
            raise InvalidArgument(message, fix="give each consumer a unique name", field="name")


def _is_partitioned(name: str, source: object) -> bool:
    check_name(name)
    fields = _FIELD.findall(name)
    has_partitions = hasattr(source, "active") and hasattr(source, "source")
    if len(fields) > 1 or bool(fields) != has_partitions:
        message = f"name: {name!r} must have " + (
            "one field in braces, because its source has partitions"
            if has_partitions
            else "no field in braces, because its source has no partitions"
        )
        fix = (
            "add a field for the partition, such as orders_{region}"
            if has_partitions
            else "remove the braces, or pass a source with partitions, such as TablePartitions"
        )
        raise InvalidArgument(message, fix=fix, field="name")
    return has_partitions


def _check_handler(handler: Callable[..., Any]) -> None:
    called = getattr(handler, "__call__", None)  # noqa: B004 - the method of a callable object
    for each in (handler, called):
        if inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each):
            message = "handler: is a generator function: calling it would run none of its code"
            raise InvalidArgument(message, fix="remove `yield` from it", field="handler")


def _check_order(order: object, key: KeyOf | None) -> None:
    if order not in ("cursor", "key", "none"):
        message = f"order: must be cursor, key or none, not {order!r}"
        raise InvalidArgument(message, fix='leave it out for "cursor"', field="order")
    if (order == "key") != (key is not None):
        message = f"key: is required with order='key', and not allowed with order={order!r}"
        fix = 'pass order="key", or omit key'
        if order == "key":
            message = "key: is missing, but order='key' needs it"
            fix = 'pass a function, such as key=lambda data: data["id"]'
        raise InvalidArgument(message, fix=fix, field="key")


def _heartbeat_seconds(seconds: float | None, lease_seconds: float) -> float:
    if seconds is None:
        return lease_seconds / HEARTBEATS_PER_LEASE
    if not 0 < seconds < lease_seconds:
        message = (
            f"heartbeat_seconds: must be more than 0 and less than lease_seconds, {lease_seconds:g}"
            f", not {seconds!r}"
        )
        fix = "omit it for a third of the lease, or pass a number in this range"
        raise InvalidArgument(message, fix=fix, field="heartbeat_seconds")
    return seconds


def _limits(
    total: int | None,
    per_group: int | Callable[[str], int] | None,
    group: Callable[[str], str] | None,
) -> ConcurrencyLimits:
    _check_counts(max_in_flight=total)
    if not callable(per_group):
        _check_counts(max_in_flight_per_group=per_group)
    return ConcurrencyLimits(total=total, per_group=per_group, group=group)


def _check_counts(**counts: int | None) -> None:
    for field, count in counts.items():
        maximum = _COUNTS_MAX[field]
        if count is not None and not 1 <= count <= maximum:
            message = f"{field}: must be 1 to {maximum}, not {count}"
            raise InvalidArgument(
                message, fix="pass a number in this range, or omit it", field=field
            )
