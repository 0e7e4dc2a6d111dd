"""Stores: keep transactional state in SQLite or PostgreSQL behind one interface; SQL by name."""

from onceward.stores.base import Params as Params
from onceward.stores.base import Row as Row
from onceward.stores.base import Rows as Rows
from onceward.stores.base import Store as Store
from onceward.stores.base import Transaction as Transaction
from onceward.stores.framework_transaction import Provider as Provider
from onceward.stores.framework_transaction import provided as provided
from onceward.stores.migrations import SchemaStatus as SchemaStatus
from onceward.stores.migrations import migrate as migrate
from onceward.stores.migrations import status as status
from onceward.stores.savepoints import Savepoint as Savepoint
from onceward.stores.store_urls import open_store as open_store

__all__ = [
    "Params",
    "Provider",
    "Row",
    "Rows",
    "Savepoint",
    "SchemaStatus",
    "Store",
    "Transaction",
    "migrate",
    "open_store",
    "provided",
    "status",
]
