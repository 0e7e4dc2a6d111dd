"""Workers: consume cursors. Consumers, their sources, and the processes that run them."""

from onceward.workers import sources
from onceward.workers.app import App
from onceward.workers.handler_calls import Reject
from onceward.workers.models import Consumer, Message
from onceward.workers.source_protocol import ActivePartitions, Item, Lag, Partitions, Source
from onceward.workers.worker import Worker, WorkerResult

__all__ = [
    "ActivePartitions",
    "App",
    "Consumer",
    "Item",
    "Lag",
    "Message",
    "Partitions",
    "Reject",
    "Source",
    "Worker",
    "WorkerResult",
    "sources",
]
