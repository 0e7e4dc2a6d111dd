"""Procrastinate's jobs, each an insert: `python -m bench.peers.procrastinate_jobs URL`."""

import asyncio
import sys
import time
from typing import Any

import procrastinate
import psycopg

from bench.peers.turns import serve

INSERT = "insert into job_effects values (%s, %s)"


class Jobs:
    """Rounds of jobs in one database."""

    def __init__(self, url: str) -> None:
        self._url = url
        connector: Any = procrastinate.PsycopgConnector(conninfo=url)
        self._app: Any = procrastinate.App(connector=connector)
        self._free: asyncio.Queue[Any] = asyncio.Queue()
        self._work: Any = self._app.task(name="work")(self._insert)

    async def _insert(self, number: int, payload: str) -> None:
        connection = await self._free.get()
        await connection.execute(INSERT, (number, payload))
        self._free.put_nowait(connection)

    async def prepare(self) -> None:
        """Make the tables."""
        async with self._app.open_async():
            await self._app.schema_manager.apply_schema_async()
        connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True)
        await connection.execute("create table job_effects (id bigint, payload text)")
        await connection.close()

    async def seconds(self, jobs: int, workers: int) -> float:
        """Defer so many jobs; return the time of one, with so many worked on at once."""
        self._free = asyncio.Queue()
        pool = []
        for _ in range(workers):
            connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True)
            pool.append(connection)
            self._free.put_nowait(connection)
        async with self._app.open_async():
            given = [{"number": number, "payload": "x" * 20} for number in range(jobs)]
            await self._work.batch_defer_async(*given)
            began = time.perf_counter()
            await self._app.run_worker_async(
                concurrency=workers, wait=False, install_signal_handlers=False
            )
            took = time.perf_counter() - began
        for connection in pool:
            await connection.close()
        return took / jobs


def main(url: str) -> None:
    jobs = Jobs(url)
    asyncio.run(jobs.prepare())

    def seconds(**given: int) -> float:
        return asyncio.run(jobs.seconds(**given))

    serve("procrastinate", {"seconds": seconds})


if __name__ == "__main__":
    main(sys.argv[1])
