"""Backends are ended and statements cancelled, at every place of a scenario in turn.

A caller that is asked to try again finds that nothing was changed; one whose outcome is unknown
finds what was there before the commit or after it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import closing
from typing import Any

import psycopg
import pytest

from onceward.client import open as open_handle
from onceward.errors import LeaseLost, OncewardError, OutcomeUnknown, StoreBusy, StoreUnavailable
from onceward.stores.postgres.transaction import PostgresTransaction
from tests.proof.postgres.conftest import NewDatabase, Undisturbed
from tests.proof.postgres.executions import Execution, How, Place
from tests.proof.postgres.scenario import Scenario, finals, state
from tests.support.evidence import Entry, Evidence

#: More places than the scenario has.
PLACES_MAX = 400
#: What is tried in a hurry.
SLICE = {"between": (5, 9), "inside": (4,), "commit": (3,)}


class Campaign:
    """Runs in which one blow falls."""

    def __init__(self, new_database: NewDatabase, calm: Undisturbed) -> None:
        self.new_database, self.calm = new_database, calm
        self.errors: Counter[str] = Counter()
        self.runs = 0

    def run(self, place: Place, how: How, nth: int) -> bool:
        """Strike at the nth place; False when there are not so many."""
        with (
            pytest.MonkeyPatch.context() as patch,
            self.new_database() as url,
            closing(psycopg.connect(url, autocommit=True)) as direct,
            open_handle(url) as ow,
        ):
            execution = Execution(place, how, nth, direct)
            acked = count_commits(patch)
            checked = False

            def refused(exc: OncewardError) -> None:
                nonlocal checked
                if not checked:
                    checked = True
                    self.check(exc, state(direct), acked.total())
                    assert how == "terminate" or isinstance(exc, StoreBusy), exc
                kinds = (StoreBusy, StoreUnavailable, OutcomeUnknown, LeaseLost)
                assert isinstance(exc, kinds), exc
                assert execution.is_done, exc

            does = Scenario(ow)
            with execution.waiting(patch):
                does.run(refused)
            if not execution.is_done:
                return False
            assert finals(direct) == self.calm.final
            assert does.mails == ["o2"], "done elsewhere, not once"
            self.errors.update(does.errors or {"absorbed": 1})
            self.runs += 1
            return True

    def check(self, exc: OncewardError, now: dict[str, list[str]], acked: int) -> None:
        """Compare what is there with the error that the caller got."""
        before = now == self.calm.states[acked]
        if isinstance(exc, OutcomeUnknown):
            after = acked + 1 < len(self.calm.states) and now == self.calm.states[acked + 1]
            assert before or after, f"neither before nor after commit {acked + 1}"
        else:
            assert before, f"{type(exc).__name__}, and something has changed"
            assert exc.retryable, exc


def count_commits(patch: pytest.MonkeyPatch) -> Counter[str]:
    """Return a counter of the commits that were answered."""
    acked: Counter[str] = Counter()
    commit = PostgresTransaction._commit

    def committing(self: PostgresTransaction, *words: Any) -> Any:
        cursors, refused = commit(self, *words)
        acked["commit"] += refused is None
        return cursors, refused

    patch.setattr(PostgresTransaction, "_commit", committing)
    return acked


@pytest.fixture
def campaign(new_database: NewDatabase, calm: Undisturbed) -> Campaign:
    """Return a campaign that has seen nothing yet."""
    return Campaign(new_database, calm)


@pytest.mark.prove
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("place", "how"),
    [
        ("between", "terminate"),
        ("inside", "terminate"),
        ("inside", "cancel"),
        ("commit", "terminate"),
        ("commit", "cancel"),
    ],
)
def test_a_backend_is_struck(
    campaign: Campaign, place: Place, how: How, prove: bool, evidence: Evidence
) -> None:
    """The error is true; done again, everything is there once."""
    for nth in itertools.count(1) if prove else iter(SLICE[place]):
        assert nth < PLACES_MAX
        try:
            if not campaign.run(place, how, nth):
                break
        except BaseException as exc:
            test = f"tests/proof/postgres/test_backends.py::test_a_backend_is_struck[{place}-{how}]"
            exc.add_note(f"at place {nth}\nREPRO: make test ARGS='{test} -n 0 --prove'")
            raise
    reported = {
        name: campaign.errors[name]
        for name in ("StoreUnavailable", "StoreBusy", "OutcomeUnknown")
        if campaign.errors[name]
    }
    evidence.record(
        Entry(
            campaign=f"{_WORDS[how]} {_WORDS[place]}, at each in turn",
            layer="postgres",
            claims=("D1", "F2", "I1", "I3", "M2", "M3"),
            engine="postgres",
            schedules=campaign.runs,
            faults={how: campaign.runs},
            work=campaign.runs * (len(campaign.calm.states) - 1),
            reached={f"reported {name}": count for name, count in reported.items()},
        )
    )


_WORDS = {
    "terminate": "a backend is ended",
    "cancel": "a statement is cancelled",
    "between": "between two statements",
    "inside": "inside a write",
    "commit": "inside COMMIT",
}
