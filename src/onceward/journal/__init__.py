"""Durable files: append-only journals with byte cursors, and atomic file replacement."""

from onceward.journal import atomic_file as atomic
from onceward.journal.journal import Journal as Journal
from onceward.journal.models import Appended as Appended
from onceward.journal.models import Damage as Damage
from onceward.journal.models import JournalLine as JournalLine
from onceward.journal.models import JournalVerification as JournalVerification
from onceward.journal.models import Record as Record
from onceward.journal.models import RecordPage as RecordPage

__all__ = [
    "Appended",
    "Damage",
    "Journal",
    "JournalLine",
    "JournalVerification",
    "Record",
    "RecordPage",
    "atomic",
]
