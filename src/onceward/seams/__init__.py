"""Seams: the only doors to time, chance and disk.

Code that needs the clock, an id, a random number or a file takes one of these as an argument; tests
pass in their own. Nothing outside this room asks the system directly, and a test makes sure.
"""

from onceward.seams.chance import Ids, Randomness, SeededRandomness, SystemRandomness
from onceward.seams.clock import Clock, ManualClock, SystemClock, timestamp
from onceward.seams.files import Files, FileStat, OpenFile
from onceward.seams.process_identity import ProcessIdentity, ProcessStat, process_stat
from onceward.seams.refusals import distrust, read_named, refusal, sync_failure, translated
from onceward.seams.system_files import FILE_MODE, SystemFiles

__all__ = [
    "FILE_MODE",
    "Clock",
    "FileStat",
    "Files",
    "Ids",
    "ManualClock",
    "OpenFile",
    "ProcessIdentity",
    "ProcessStat",
    "Randomness",
    "SeededRandomness",
    "SystemClock",
    "SystemFiles",
    "SystemRandomness",
    "distrust",
    "process_stat",
    "read_named",
    "refusal",
    "sync_failure",
    "timestamp",
    "translated",
]
