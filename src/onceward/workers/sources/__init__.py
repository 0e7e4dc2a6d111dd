"""Sources: read messages from journal files, database tables, HTTP endpoints or iterables."""

from onceward.workers.sources.http import HttpSource
from onceward.workers.sources.iterator import IterableSource
from onceward.workers.sources.journal import JournalSource
from onceward.workers.sources.table import Table, TablePartitions, TableSource

__all__ = [
    "HttpSource",
    "IterableSource",
    "JournalSource",
    "Table",
    "TablePartitions",
    "TableSource",
]
