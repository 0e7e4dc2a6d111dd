"""Vfs: a SQLite file system written in Python, inside the SQLite library that `sqlite3` uses.

Owns the C structures and the callbacks. A subclass overrides the operations it wants to change.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import os
import sqlite3
import traceback
from collections.abc import Callable
from functools import cache
from typing import Any, Final

#: SQLite's result codes, https://www.sqlite.org/rescode.html.
OK: Final = 0
INTERNAL: Final = 2
FULL: Final = 13
CANTOPEN: Final = 14
IOERR_READ: Final = 10 | 1 << 8
IOERR_WRITE: Final = 10 | 3 << 8
IOERR_FSYNC: Final = 10 | 4 << 8
IOERR_TRUNCATE: Final = 10 | 6 << 8
IOERR_DELETE: Final = 10 | 10 << 8
#: Why tests that need a VFS cannot run.
UNREACHABLE: Final = "sqlite3 is linked statically: its SQLite takes no VFS from outside"

_int, _long, _pointer = ctypes.c_int, ctypes.c_int64, ctypes.c_void_p
_Open = ctypes.CFUNCTYPE(_int, _pointer, _pointer, _pointer, _int, _pointer)
_Delete = ctypes.CFUNCTYPE(_int, _pointer, _pointer, _int)
_Close = ctypes.CFUNCTYPE(_int, _pointer)
_Transfer = ctypes.CFUNCTYPE(_int, _pointer, _pointer, _int, _long)
_Truncate = ctypes.CFUNCTYPE(_int, _pointer, _long)
_Sync = ctypes.CFUNCTYPE(_int, _pointer, _int)

#: The functions of a `sqlite3_io_methods`; each version of the structure adds some.
_METHODS: Final = {
    1: (
        *("xClose", "xRead", "xWrite", "xTruncate", "xSync", "xFileSize", "xLock", "xUnlock"),
        *("xCheckReservedLock", "xFileControl", "xSectorSize", "xDeviceCharacteristics"),
    ),
    2: ("xShmMap", "xShmLock", "xShmBarrier", "xShmUnmap"),
    3: ("xFetch", "xUnfetch"),
}
_LATEST: Final = max(_METHODS)


class _StructVfs(ctypes.Structure):
    """A `sqlite3_vfs`, version 3."""

    _fields_ = (
        ("iVersion", _int),
        ("szOsFile", _int),
        ("mxPathname", _int),
        ("pNext", _pointer),
        ("zName", ctypes.c_char_p),
        ("pAppData", _pointer),
        *(
            (name, _pointer)
            for name in (
                *("xOpen", "xDelete", "xAccess", "xFullPathname", "xDlOpen", "xDlError", "xDlSym"),
                *("xDlClose", "xRandomness", "xSleep", "xCurrentTime", "xGetLastError"),
                *("xCurrentTimeInt64", "xSetSystemCall", "xGetSystemCall", "xNextSystemCall"),
            )
        ),
    )


class _StructMethods(ctypes.Structure):
    """A `sqlite3_io_methods`, version 3."""

    _fields_ = (
        ("iVersion", _int),
        *((name, _pointer) for names in _METHODS.values() for name in names),
    )


@cache
def library() -> ctypes.CDLL | None:
    """Return the SQLite library that `sqlite3` uses, or None if its functions are not exported."""
    # A lookup by this handle searches the module first, then the libraries it is linked with.
    found = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
    try:
        find, source_id = found.sqlite3_vfs_find, found.sqlite3_sourceid
        found.sqlite3_vfs_register.argtypes = [_pointer, _int]
    except AttributeError:
        return None
    find.restype, find.argtypes = _pointer, [ctypes.c_char_p]
    source_id.restype = ctypes.c_char_p
    connection = sqlite3.connect(":memory:")
    [(used,)] = connection.execute("select sqlite_source_id()").fetchall()
    connection.close()
    return found if source_id().decode() == used else None


#: Structures and callbacks that SQLite points to: they live as long as the process.
_kept: list[Any] = []


class Vfs:
    """The default file system of `sqlite3` in this process, for all files opened from now on.

    An operation gets the path of the file and `real`, which does it on the real file system.
    It returns SQLite's result code. Temporary files have no name and do not come here.
    """

    def __init__(self, name: str) -> None:
        """Register it."""
        found = library()
        assert found is not None, UNREACHABLE
        #: The traceback of the first exception in an operation; SQLite cannot raise it.
        self.failure: str | None = None
        self._paths: dict[int, str] = {}
        self._methods: dict[int, _StructMethods] = {}
        self._real_address = found.sqlite3_vfs_find(b"unix")
        real = _StructVfs.from_address(self._real_address)
        assert real.iVersion >= _LATEST, real.iVersion
        self._real_open, self._real_delete = _Open(real.xOpen), _Delete(real.xDelete)
        vfs = _StructVfs.from_buffer_copy(real)
        vfs.pNext, vfs.zName = None, name.encode()
        vfs.xOpen = self._callback(_Open, self._on_open)
        vfs.xDelete = self._callback(_Delete, self._on_delete)
        _kept.append(vfs)
        code = found.sqlite3_vfs_register(ctypes.addressof(vfs), 1)
        assert code == OK, code

    # --- operations to override -----------------------------------------------------------------

    def open(self, path: str, real: Callable[[], int]) -> int:
        """Open a file."""
        del path
        return real()

    def delete(self, path: str, real: Callable[[], int], *, is_synced: bool) -> int:
        """Remove a file, and sync its directory if `is_synced`."""
        del path, is_synced
        return real()

    def read(self, path: str, real: Callable[[], int]) -> int:
        """Read from a file."""
        del path
        return real()

    def write(self, path: str, real: Callable[[int], int], offset: int, data: bytes) -> int:
        """Write `data` to a file; `real` takes how many bytes of it are written."""
        del path, offset
        return real(len(data))

    def truncate(self, path: str, real: Callable[[], int], size: int) -> int:
        """Set the size of a file."""
        del path, size
        return real()

    def sync(self, path: str, real: Callable[[], int]) -> int:
        """Sync a file."""
        del path
        return real()

    # --- callbacks ------------------------------------------------------------------------------

    def _callback(self, kind: Callable[..., Any], call: Callable[..., int]) -> int:
        """Return the address of a C function that calls `call`."""

        def guarded(*arguments: Any) -> int:
            try:
                return call(*arguments)
            except BaseException:  # noqa: BLE001 - C code cannot raise it
                self.failure = self.failure or traceback.format_exc()
                return INTERNAL

        function = kind(guarded)
        _kept.append(function)
        address = ctypes.cast(function, _pointer).value
        assert address is not None
        return address

    def _on_open(self, _: int, name: int | None, file: int, flags: int, flags_out: int) -> int:
        def real() -> int:
            # SQLite reads URI parameters beyond the end of `name`: the pointer is passed as it is.
            return int(self._real_open(self._real_address, name, file, flags, flags_out))

        if name is None:
            return real()
        methods = _pointer.from_address(file)
        methods.value = None  # SQLite does not close a file that has none.
        path = os.fsdecode(ctypes.string_at(name))
        code = self.open(path, real)
        if methods.value is not None:
            self._paths[file] = path
            methods.value = ctypes.addressof(self._methods_over(methods.value))
        return code

    def _on_delete(self, _: int, name: int, is_synced: int) -> int:
        def real() -> int:
            return int(self._real_delete(self._real_address, name, is_synced))

        return self.delete(os.fsdecode(ctypes.string_at(name)), real, is_synced=bool(is_synced))

    def _methods_over(self, address: int) -> _StructMethods:
        """Return the methods at this address with ours in place of some; made once for each."""
        if address in self._methods:
            return self._methods[address]
        methods = _copied_methods(address)
        real_close, real_sync = _Close(methods.xClose), _Sync(methods.xSync)
        real_read, real_write = _Transfer(methods.xRead), _Transfer(methods.xWrite)
        real_truncate = _Truncate(methods.xTruncate)

        def on_close(file: int) -> int:
            del self._paths[file]
            return int(real_close(file))

        def on_read(file: int, buffer: int, size: int, offset: int) -> int:
            return self.read(self._paths[file], lambda: real_read(file, buffer, size, offset))

        def on_write(file: int, buffer: int, size: int, offset: int) -> int:
            def real(count: int) -> int:
                return int(real_write(file, buffer, count, offset))

            return self.write(self._paths[file], real, offset, ctypes.string_at(buffer, size))

        def on_truncate(file: int, size: int) -> int:
            return self.truncate(self._paths[file], lambda: real_truncate(file, size), size)

        def on_sync(file: int, flags: int) -> int:
            return self.sync(self._paths[file], lambda: real_sync(file, flags))

        methods.xClose = self._callback(_Close, on_close)
        methods.xRead = self._callback(_Transfer, on_read)
        methods.xWrite = self._callback(_Transfer, on_write)
        methods.xTruncate = self._callback(_Truncate, on_truncate)
        methods.xSync = self._callback(_Sync, on_sync)
        self._methods[address] = methods
        _kept.append(methods)
        return methods


def _copied_methods(address: int) -> _StructMethods:
    """Copy the methods at this address, as many as their version has."""
    methods = _StructMethods()
    methods.iVersion = min(_int.from_address(address).value, _LATEST)
    last = _METHODS[methods.iVersion][-1]
    field = getattr(_StructMethods, last)
    ctypes.memmove(
        ctypes.addressof(methods) + _StructMethods.xClose.offset,
        address + _StructMethods.xClose.offset,
        field.offset + field.size - _StructMethods.xClose.offset,
    )
    return methods
