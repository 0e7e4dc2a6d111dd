"""Workers: the cursor runtime. Consumers, their sources, and the processes that run them."""

from onceward.workers import sources
from onceward.workers.app import App
from onceward.workers.handling import Reject
from onceward.workers.models import Consumer, Message
from onceward.workers.source import Active, Item, Lag, Partitions, Source
from onceward.workers.worker import Worked, Worker

__all__ = [
    "Active",
    "App",
    "Consumer",
    "Item",
    "Lag",
    "Message",
    "Partitions",
    "Reject",
    "Source",
    "Worked",
    "Worker",
    "sources",
]
