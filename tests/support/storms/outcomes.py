"""A storm: threads of four processes want the same keys, and the processes are killed.

Run as `python -m tests.support.storms.outcomes URL DIRECTORY SEED VISITS KILLS`. Half of the keys
charge at a bank that no store can see, half insert a row in the transaction of their outcome.
Prints a JSON summary; a second effect or a second result for one key is an AssertionError.
"""

import json
import os
import random
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.outcomes import Done, NotDone
from onceward.stores import Transaction
from onceward.system import crash_points

PROCESSES, THREADS, KEYS = 4, 16, 1000
#: Longer than a living process may be delayed, as short as the dead may be waited for.
LEASE_SECONDS = 4.0
WAIT_SECONDS = 120.0
POINTS = [
    "outcome.claim.before_commit",
    "outcome.claim.after_commit",
    "outcome.run.after_effect",
    "outcome.finish.before_commit",
    "outcome.finish.after_commit",
    "outcome.claim_in.after_find",
    "outcome.finish_in.before_commit",
    "transaction.before_commit",
    "transaction.after_commit",
]


class Log:
    """Lines of key and token, from any process, each written at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def add(self, key: int, token: str) -> None:
        os.write(self._descriptor, f"{key} {token}\n".encode())

    def tokens(self) -> dict[int, list[str]]:
        found: dict[int, list[str]] = defaultdict(list)
        for line in self.path.read_text().splitlines():
            key, _, token = line.partition(" ")
            found[int(key)].append(token)
        return found


class Storm:
    def __init__(self, url: str, directory: Path, visits: int) -> None:
        self.url = url
        self.bank = Log(directory / "bank")
        self.results = Log(directory / "results")
        self.visits = visits

    def functions(self, ow: Onceward) -> list[Callable[..., Any]]:
        def look(key: int) -> Done | NotDone:
            charged = self.bank.tokens().get(key)
            return Done(charged[0]) if charged else NotDone()

        options: dict[str, Any] = {"key": str, "wait": WAIT_SECONDS}

        @ow.once(scope="bank", reconcile=look, lease_seconds=LEASE_SECONDS, **options)
        def charge(key: int) -> str:
            token = os.urandom(6).hex()
            self.bank.add(key, token)
            return token

        @ow.once(scope="table", **options)
        def insert(key: int, tx: Transaction) -> str:
            token = os.urandom(6).hex()
            tx.execute("insert into charges values (?, ?)", [key, token])
            return token

        return [charge, insert]

    def live(self, seed: int, spec: str | None) -> None:
        """Visit the keys in random order from many threads."""
        crash_points.arm(spec)
        errors: list[BaseException] = []
        with open_handle(self.url) as ow:
            functions = self.functions(ow)

            def work(thread: int) -> None:
                source = random.Random(seed * 1000 + thread)
                try:
                    for key in source.sample(range(KEYS), self.visits):
                        self.results.add(key, functions[key % 2](key))
                except BaseException as exc:
                    errors.append(exc)
                    raise

            threads = [threading.Thread(target=work, args=[each]) for each in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        os._exit(1 if errors else 0)

    def run(self, seed: int, kills: int) -> int:
        """Keep four processes alive until each has seen its keys; return how many were killed."""
        source = random.Random(seed)
        lives, killed, done = 0, 0, 0
        children: set[int] = set()
        while done < PROCESSES:
            while len(children) < PROCESSES - done:
                lives += 1
                is_armed = killed + len(children) < kills
                spec = f"{source.choice(POINTS)}:{source.randint(1, 40)}" if is_armed else None
                child = os.fork()
                if child == 0:
                    self.live(seed + lives, spec)
                children.add(child)
            child, status = os.waitpid(-1, 0)
            children.discard(child)
            if os.WIFSIGNALED(status):
                assert os.WTERMSIG(status) == signal.SIGKILL, status
                killed += 1
            else:
                assert status == 0, status
                done += 1
        return killed

    def check(self) -> dict[str, int]:
        with open_handle(self.url) as ow:
            with ow.transaction() as tx:
                rows = tx.execute("select number, token from charges")
            effects = self.bank.tokens()
            for key, token in rows:
                effects[key].append(token)
            recorded = {
                int(each.key): json.loads(each.result or b"null")
                for each in ow.outcomes.list(state="done", limit=10**6)
            }
        reported = self.results.tokens()
        twice = {key: tokens for key, tokens in effects.items() if len(tokens) > 1}
        assert not twice, twice
        for key, tokens in reported.items():
            assert set(tokens) == set(effects[key]) == {recorded[key]}, key
        assert set(effects) >= set(recorded)
        return {"keys": len(recorded), "results": sum(map(len, reported.values()))}


def main(url: str, directory: Path, seed: int, visits: int, kills: int) -> None:
    with open_handle(url) as ow, ow.transaction() as tx:
        tx.execute("create table charges (number bigint, token text)")
    storm = Storm(url, directory, visits)
    killed = storm.run(seed, kills)
    json.dump({"kills": killed, **storm.check()}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:6]))
