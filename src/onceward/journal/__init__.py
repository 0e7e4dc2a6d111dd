"""Files that are the truth: append-only journals with byte cursors, and atomic replacement."""

from onceward.journal import atomic as atomic
from onceward.journal.journal import Journal as Journal
from onceward.journal.models import Appended as Appended
from onceward.journal.models import Damage as Damage
from onceward.journal.models import Line as Line
from onceward.journal.models import Page as Page
from onceward.journal.models import Record as Record
from onceward.journal.models import Verification as Verification

__all__ = ["Appended", "Damage", "Journal", "Line", "Page", "Record", "Verification", "atomic"]
