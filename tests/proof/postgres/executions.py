"""Executions: a backend is ended, or its statement cancelled, at one place of one's choice.

Between two statements the client tells when. Inside a statement, or inside the commit, triggers
fall asleep at the nth write, and the watcher strikes the sleeper.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final, Literal

import psycopg
import pytest

Place = Literal["between", "inside", "commit"]
How = Literal["terminate", "cancel"]
Connection = psycopg.Connection[Any]

#: Longer than any test: a sleeper is woken by what is done to it.
SLEEP_SECONDS: Final = 600
_STRIKE: Final = {
    "terminate": "select pg_terminate_backend(%s, 30000)",
    "cancel": "select pg_cancel_backend(%s)",
}
#: Counts writes in a sequence, which no rollback takes back, and sleeps when it comes to 0.
_DOZE: Final = f"""
create sequence doom minvalue -1000000;
create function doze() returns trigger language plpgsql as $$
  begin
    if nextval('doom') = 0 then
      perform pg_sleep({SLEEP_SECONDS});
    end if;
    return null;
  end
$$;
"""
_INSIDE: Final = """
create trigger doze before insert or update or delete on {table} for each statement
  execute function doze();
"""
_AT_COMMIT: Final = """
create constraint trigger doze after insert or update or delete on {table}
  deferrable initially deferred for each row execute function doze();
"""
_SLEEPING: Final = (
    "select pid from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()"
)


def let_sleep(connection: Connection, place: Place, tables: Sequence[str], nth: int) -> None:
    """Let the session of the nth write to these tables fall asleep, inside it or at commit."""
    trigger = _INSIDE if place == "inside" else _AT_COMMIT
    triggers = "".join(trigger.format(table=table) for table in tables)
    connection.execute(f"{_DOZE}{triggers}".encode())
    connection.execute("select setval('doom', %s)", [-nth])


def await_sleeper(url: str, over: threading.Event) -> int | None:
    """Return the process id of the session that fell asleep; None when it is over before."""
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        while not over.wait(0.002):
            for (pid,) in connection.execute(_SLEEPING.encode()).fetchall():
                return int(pid)
    return None


class Execution:
    """One blow, at the nth place of a kind; whether it came to it is seen afterwards."""

    def __init__(self, place: Place, how: How, nth: int, direct: Connection) -> None:
        """Prepare the database; `direct` is a connection that nothing happens to."""
        self.place, self.how, self.nth = place, how, nth
        self._direct = direct
        self.is_done = False

    @contextmanager
    def waiting(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        """Strike while the block runs, once."""
        if self.place == "between":
            with patch.context() as own:
                self._strike_between(own)
                yield
            return
        found = self._direct.execute(
            "select tablename from pg_tables where schemaname = 'public'"
        ).fetchall()
        let_sleep(self._direct, self.place, [row[0] for row in found], self.nth)
        over = threading.Event()
        watching = threading.Thread(target=self._strike_sleeper, args=[over])
        watching.start()
        yield
        over.set()
        watching.join()

    def _strike_between(self, patch: pytest.MonkeyPatch) -> None:
        execute = psycopg.Connection.execute
        left = self.nth

        def striking(self_: Connection, *args: Any, **kwargs: Any) -> Any:
            nonlocal left
            if self_ is not self._direct:
                left -= 1
                if left == 0:
                    self.is_done = True
                    execute(self._direct, _STRIKE[self.how].encode(), [self_.info.backend_pid])
            return execute(self_, *args, **kwargs)

        patch.setattr(psycopg.Connection, "execute", striking)

    def _strike_sleeper(self, over: threading.Event) -> None:
        dsn = self._direct.info.dsn
        pid = await_sleeper(dsn, over)
        if pid is not None:
            self.is_done = True
            with closing(psycopg.connect(dsn, autocommit=True)) as connection:
                connection.execute(_STRIKE[self.how].encode(), [pid])
