"""Shops whose orders are rows of an ORM: SQLAlchemy in our transaction, Django in its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import django
import sqlalchemy
from django.conf import settings
from django.db import close_old_connections, connections, models, transaction
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import NullPool

from onceward.client import Onceward

TABLE = "create table orders (number integer primary key, note text not null default '')"
#: A killed holder of the key is gone by then.
WAIT_SECONDS = 60.0
#: Called between two states of an order; a test may end the process there.
Stage = Callable[[str], None]
Order = Callable[[int], int]
_numbers = itertools.count(1)

settings.configure(DATABASES={}, INSTALLED_APPS=[], USE_TZ=True)
django.setup()


class Base(DeclarativeBase):
    """SQLAlchemy's models."""


class AlchemyOrder(Base):
    """An order, as SQLAlchemy has it."""

    __tablename__ = "orders"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    note: Mapped[str] = mapped_column(default="")


class DjangoOrder(models.Model):  # type: ignore[misc]  # Django has no types
    """An order, as Django has it."""

    number = models.IntegerField(primary_key=True)
    note = models.TextField(default="")

    class Meta:
        """Names the table; there is no app."""

        app_label = "shop"
        db_table = "orders"

    def __str__(self) -> str:
        return f"order {self.number}"


def nothing(_: str) -> None:
    """Go on."""


def engine_of(ow: Onceward) -> sqlalchemy.Engine:
    """Return an engine whose every connection is that of the transaction that is open."""
    url = "sqlite://" if ow.store.engine == "sqlite" else "postgresql+psycopg://"
    return sqlalchemy.create_engine(url, creator=ow.connection, poolclass=NullPool)


def alchemy_shop(ow: Onceward, stage: Stage = nothing) -> Order:
    """Return what takes an order once, with two commits of SQLAlchemy's on the way."""
    engine = engine_of(ow)
    sqlalchemy.event.listen(engine, "after_cursor_execute", lambda *_: stage("statement"))

    @ow.once(key=str, scope="shop.order", wait=WAIT_SECONDS)
    def order(number: int, tx: Any = None) -> int:  # noqa: ARG001 - the engine finds it
        stage("begun")
        with Session(engine) as session:
            row = AlchemyOrder(number=number, note="new")
            session.add(row)
            session.flush()
            stage("flushed")
            session.commit()
            stage("committed by the session")
            row.note = "paid"
            session.commit()
        stage("closed")
        return number

    return order


def django_database(url: str) -> str:
    """Let Django know a database; return the alias."""
    alias = f"shop_{next(_numbers)}"
    if url.startswith("sqlite"):
        wanted: dict[str, Any] = {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": url.removeprefix("sqlite:///"),
            "OPTIONS": {"transaction_mode": "IMMEDIATE"},
        }
    else:
        parts = conninfo_to_dict(url)
        wanted = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts["dbname"],
            "HOST": parts["host"],
            "PORT": parts.get("port", ""),
            "USER": parts.get("user", ""),
        }
    made = connections.configure_settings({"default": {}, alias: wanted})
    connections.settings[alias] = made[alias]
    return alias


def django_provider(alias: str) -> Callable[[], AbstractContextManager[Any]]:
    """Return what opens a transaction of Django's and gives the driver's connection."""

    @contextmanager
    def open_transaction() -> Iterator[Any]:
        close_old_connections()
        try:
            with transaction.atomic(using=alias):
                yield connections[alias].connection
        finally:
            close_old_connections()

    return open_transaction


def django_shop(ow: Onceward, alias: str, stage: Stage = nothing) -> Order:
    """Return what takes an order once, in a transaction of Django's."""

    def run(execute: Any, *args: Any) -> Any:
        stage("statement")
        return execute(*args)

    @ow.once(key=str, scope="shop.order", wait=WAIT_SECONDS)
    def order(number: int, tx: Any = None) -> int:  # noqa: ARG001 - Django has its connection
        stage("begun")
        with connections[alias].execute_wrapper(run), transaction.atomic(using=alias):
            row = DjangoOrder(number=number, note="new")
            row.save(using=alias, force_insert=True)
        stage("saved")
        row.note = "paid"
        row.save(using=alias)
        return number

    def call(number: int) -> int:
        with django_provider(alias)() as connection:
            with ow.transaction(connection=connection):
                taken = order(number)
            stage("joined")
        stage("committed")
        return taken

    return call
