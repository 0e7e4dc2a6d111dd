"""The answer to a commit is lost, at each commit in turn; or the commit itself is.

What was committed must then be known from the store alone: callers get an error that the outcome
is unknown, and a call with the same key, or a look, ends with everything done once.
"""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pytest

from onceward.client import open as open_handle
from onceward.errors import LeaseLost, OncewardError, OutcomeUnknown
from tests.proof.postgres.conftest import NewDatabase, Undisturbed
from tests.proof.postgres.scenario import Scenario, finals, state
from tests.proof.proxy import Proxy
from tests.support.evidence import Entry, Evidence

COMMIT = b"commit\x00"
#: More commits than the scenario has.
COMMITS_MAX = 200
#: A checkpoint, a claim that is asked for again, and a batch.
SLICE = (4, 7, 13)


class Losing:
    """Runs in which one commit goes wrong on the wire."""

    def __init__(self, new_database: NewDatabase, calm: Undisturbed, *, arrives: bool) -> None:
        self.new_database = new_database
        self.states, self.final = calm
        self.arrives = arrives
        self.errors: Counter[str] = Counter()
        self.runs = 0

    def run(self, nth: int) -> bool:
        """Lose the nth commit; False when there are not so many."""
        with self.new_database() as url:
            port = urlsplit(url).port
            assert port is not None
            with (
                closing(psycopg.connect(url, autocommit=True)) as direct,
                Proxy("127.0.0.1", port) as proxy,
                open_handle(url.replace(f":{port}/", f":{proxy.port}/")) as ow,
            ):
                return self.lose(nth, direct, proxy, Scenario(ow))

    def lose(
        self, nth: int, direct: psycopg.Connection[tuple[object, ...]], proxy: Proxy, does: Scenario
    ) -> bool:
        lose = proxy.lose_answer_to if self.arrives else proxy.lose_message_with
        lose(COMMIT, nth)

        def refused(exc: OncewardError) -> None:
            if isinstance(exc, LeaseLost):
                return  # A consequence of an earlier ambiguous one.
            assert isinstance(exc, OutcomeUnknown), exc
            assert proxy.has_lost
            expected = self.states[nth if self.arrives else nth - 1]
            assert state(direct) == expected, f"not as it was after commit {nth}"

        does.run(refused)
        if not proxy.has_lost:
            return False
        assert finals(direct) == self.final
        assert does.mails == ["o2"], "done elsewhere, not once"
        assert does.errors["OutcomeUnknown"] <= 1, does.errors
        self.errors.update(does.errors or {"absorbed": 1})
        self.runs += 1
        return True


@pytest.mark.prove
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("arrives", [True, False], ids=["answer", "commit"])
def test_a_commit_without_an_answer(
    new_database: NewDatabase, calm: Undisturbed, arrives: bool, prove: bool, evidence: Evidence
) -> None:
    """The outcome is unknown to callers; the store is before or after it; asked again, once."""
    losing = Losing(new_database, calm, arrives=arrives)
    tried = itertools.count(1) if prove else iter(SLICE)
    for nth in tried:
        assert nth < COMMITS_MAX
        try:
            if not losing.run(nth):
                break
        except BaseException as exc:
            where = f"{__file__.rpartition('/tests/')[2]}::test_a_commit_without_an_answer"
            name = "answer" if arrives else "commit"
            exc.add_note(
                f"commit {nth} was lost\nREPRO: make test ARGS='tests/{where}[{name}] -n 0 --prove'"
            )
            raise
    assert losing.runs == (len(losing.states) - 1 if prove else len(SLICE))
    what = "the answer to COMMIT is lost" if arrives else "the connection breaks before COMMIT"
    evidence.record(
        Entry(
            campaign=f"{what}, at every commit of a scenario in turn",
            layer="postgres",
            claims=("D1", "F2", "I1", "I3", "M2", "M3"),
            engine="postgres",
            schedules=losing.runs,
            faults={"answer lost" if arrives else "commit lost": losing.runs},
            work=losing.runs * (len(losing.states) - 1),
            reached={
                "outcome unknown": losing.errors["OutcomeUnknown"],
                "ambiguous lease refuses": losing.errors["an ambiguous lease refuses"],
                "not noticed": losing.errors["absorbed"],
            },
        )
    )
