"""System: injectable clock, files and random ids; signals, logs, redaction and crash points.

Code that needs the time, an id, a random number or a file takes one of these as an argument, and
tests pass fakes. No other package calls the operating system for them; a test checks it.
"""

from onceward.system.clock import Clock, ManualClock, SystemClock, timestamp
from onceward.system.files import Files, FileStat, OpenFile
from onceward.system.os_errors import (
    file_error,
    find_openers,
    mapped_os_errors,
    read_user_file,
    sync_error,
    untrusted_file,
)
from onceward.system.process_identity import ProcessIdentity, ProcessStat, process_stat
from onceward.system.random_ids import Ids, Randomness, SeededRandomness, SystemRandomness
from onceward.system.system_files import FILE_MODE, SystemFiles

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
    "file_error",
    "find_openers",
    "mapped_os_errors",
    "process_stat",
    "read_user_file",
    "sync_error",
    "timestamp",
    "untrusted_file",
]
