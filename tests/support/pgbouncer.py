"""A real PgBouncer in transaction mode, in front of a PostgreSQL server of the tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psycopg

from onceward.testing import postgres
from onceward.testing.postgres import PostgresServer
from tests.support.waiting import until

#: Debian installs it where only root looks for programs.
PROGRAM: Final = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
#: The engine by which tests are run through it; none where it is missing.
POOLER: Final = () if PROGRAM is None else ("pooler",)
START_SECONDS_MAX: Final = 120.0
#: Roles that may log in; PgBouncer asks for a list even where it trusts them all.
_ROLES: Final = ("postgres",)


class PgBouncer:
    """A pooler with so many server sessions for each database."""

    def __init__(self, server: PostgresServer, *, pool_size: int) -> None:
        """Start it, as an unprivileged user: it refuses to run as root.

        Sessions are lent in turn, so that a client seldom has the same one twice.
        """
        assert PROGRAM is not None
        self._home = Path(tempfile.mkdtemp(prefix="onceward-pgbouncer-"))
        self.port = postgres._free_port()
        users = self._home / "users.txt"
        users.write_text("".join(f'"{role}" ""\n' for role in _ROLES))
        settings = self._home / "pgbouncer.ini"
        settings.write_text(
            f"""[databases]
* = host=127.0.0.1 port={server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = transaction
default_pool_size = {pool_size}
server_round_robin = 1
max_client_conn = 900
query_wait_timeout = 60
"""
        )
        self._home.chmod(0o755)
        self._process = subprocess.Popen(
            [PROGRAM, "-q", settings],
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **postgres._run_as_user(),
        )
        self._wait_until_it_answers()

    def url(self, direct: str) -> str:
        """Return the URL by which a database is reached through the pooler."""
        return f"postgresql://postgres@127.0.0.1:{self.port}{urlsplit(direct).path}"

    def close(self) -> None:
        """Stop it and remove its files."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def _wait_until_it_answers(self) -> None:
        until(self._answers, "PgBouncer did not start")

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgresql:///postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            assert self._process.poll() is None, "PgBouncer ended while starting"
            return False
        return True
