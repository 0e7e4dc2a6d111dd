"""Status: all unfinished work is found, with what settles it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from onceward.client import Onceward
from onceward.errors import InvalidCursor
from onceward.outcomes import effect
from onceward.retries import Failure, RetryMessage
from onceward.testing.moving_time import MovingTime
from onceward.workers import App, Item, Lag
from onceward.workers.unfinished_work import UnfinishedItem, find_unfinished
from tests.support.command_runner import Run, run
from tests.support.list_source import ListPartitions, ListSource, StrictSource

FAILURE = Failure(type="ValueError", message="no such lead")
__all__ = ["run"]


def found(ow: Onceward, app: App | None = None) -> list[UnfinishedItem]:
    return list(find_unfinished(ow, app, target="shop:app"))


def only(ow: Onceward, app: App | None = None) -> UnfinishedItem:
    (finding,) = found(ow, app)
    return finding


@pytest.fixture
def settle(run: Run, ow_url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Run a command that a finding names, against the store under test."""
    monkeypatch.setenv("ONCEWARD_STORE", ow_url)

    def call(command: str) -> None:
        program, *words = shlex.split(command)
        assert program == "onceward"
        ran = run(*words)
        assert ran.code == 0, ran.err

    return call


def test_a_store_without_trouble_has_nothing(ow: Onceward) -> None:
    """Held, free and finished cursors are no findings; nor are internal cursors."""
    ow.cursors.acquire("held", "w")
    lease = ow.cursors.acquire("free", "w")
    assert lease is not None
    lease.release()
    ow.cursors.acquire("~alerts", "w")
    ow.cursors.pause("~alerts")
    assert found(ow) == []
    assert ow.once(key=lambda n: f"k{n}")(lambda n: n)(1) == 1
    assert found(ow) == []


@pytest.mark.parametrize("verdict", [0, 1])
def test_ambiguous_work_waits_for_a_verdict(
    ow: Onceward, ow_time: MovingTime, settle: Callable[[str], None], verdict: int
) -> None:
    """It was begun and fell silent; either verdict settles it."""
    ow.outcomes.claim(
        "shop.charge", "charge #7's", owner="host/1/a", fingerprint="f", lease_seconds=60
    )
    assert found(ow) == []
    ow_time.advance(seconds=100)
    finding = only(ow)
    assert (finding.kind, finding.subject) == ("ambiguous outcome", "shop.charge charge #7's")
    assert finding.since
    settle(finding.settle[verdict])
    assert found(ow) == []


def test_work_past_its_lease_that_may_be_repeated_is_reported(
    ow: Onceward, ow_time: MovingTime, settle: Callable[[str], None]
) -> None:
    """The next caller runs it; until one comes, it is unfinished."""
    ow.outcomes.claim(
        "shop.mail", "mail#1", owner="a", fingerprint="f", lease_seconds=60, on_crash="rerun"
    )
    assert found(ow) == []
    ow_time.advance(seconds=100)
    finding = only(ow)
    assert (finding.kind, finding.subject) == ("abandoned outcome", "shop.mail mail#1")
    settle(finding.settle[0])
    assert found(ow) == []


def test_an_ambiguous_step_waits_for_a_verdict(
    ow: Onceward, ow_time: MovingTime, settle: Callable[[str], None]
) -> None:
    """The step is named, beside the work it belongs to."""

    @ow.once(key=lambda: "k", scope="shop.order", on_crash="rerun")
    def order() -> None:
        with pytest.raises(KeyboardInterrupt):
            effect("pay", interrupt)
        raise KeyboardInterrupt

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        order()
    ow_time.advance(seconds=10_000)
    steps = [finding for finding in found(ow) if finding.kind == "ambiguous step"]
    assert [(each.subject, "pay" in each.what) for each in steps] == [("shop.order k", True)]
    settle(steps[0].settle[0])
    assert not [finding for finding in found(ow) if finding.kind == "ambiguous step"]


def test_a_message_that_holds_its_cursor_is_named(
    ow: Onceward, settle: Callable[[str], None]
) -> None:
    """With what it said; moving past it settles it."""
    lease = ow.cursors.acquire("leads", "w")
    assert lease is not None
    lease.checkpoint("6")
    with ow.transaction() as tx:
        ow.retries.attempts.fail(tx, RetryMessage(cursor="leads", position="7", raw=b""), FAILURE)
    lease.release()
    finding = only(ow)
    measured(ow, messages=2, seconds=5)
    assert [each.kind for each in found(ow)] == ["held message"]  # That is why it lags.
    measured(ow, messages=0, seconds=0)
    assert (finding.kind, finding.subject) == ("held message", "leads")
    assert "position 7 failed 1 times" in finding.what
    assert "no such lead" in finding.what
    assert finding.settle[0] == "onceward worker shop:app --once"
    settle(finding.settle[1])
    assert ow.cursors.show("leads").position == "7"
    assert found(ow) == []


def test_parked_keys_are_lines(ow: Onceward) -> None:
    """One finding for each key, one for those that wait alone."""
    ow.cursors.acquire("leads", "w")
    with ow.transaction() as tx:
        for position, key in (("1", "a"), ("2", "a"), ("3", "b")):
            message = RetryMessage(cursor="leads", position=position, raw=b"", key=key)
            failure = None if position == "2" else FAILURE
            ow.retries.parked.park(tx, message, failure=failure)
        alone = RetryMessage(cursor="leads", position="4", raw=b"")
        ow.retries.parked.park(tx, alone, failure=FAILURE, order="none")
    lines = [(each.kind, each.what.split(",")[0], each.settle) for each in found(ow)]
    work = ("onceward worker shop:app --once",)
    assert sorted(lines) == [
        ("parked messages", "1 parked with the key b", work),
        ("parked messages", "1 parked without a key", work),
        ("parked messages", "2 parked with the key a", work),
    ]


def test_dead_letters_are_counted(ow: Onceward, settle: Callable[[str], None]) -> None:
    """By cursor; putting them back leaves them parked."""
    with ow.transaction() as tx:
        for position in ("1", "2"):
            ow.dead.add(tx, RetryMessage(cursor="my leads", position=position, raw=b""), FAILURE)
    finding = only(ow)
    assert (finding.kind, finding.what) == (
        "dead letters",
        "2 messages are not retried automatically any more",
    )
    settle(finding.settle[0])
    assert {each.kind for each in found(ow)} == {"parked messages"}


def test_paused_cursors_are_reported_with_who_and_why(
    ow: Onceward, settle: Callable[[str], None]
) -> None:
    """People forget."""
    ow.cursors.acquire("leads", "w")
    ow.cursors.pause("leads", "billing is down", "ana")
    finding = only(ow)
    assert finding.what == "paused by ana: billing is down"
    assert finding.since == ow.cursors.history("leads")[0].happened_at
    settle(finding.settle[0])
    assert not ow.cursors.show("leads").is_paused


def test_a_cursor_whose_worker_died_is_abandoned(ow: Onceward, ow_time: MovingTime) -> None:
    """Its lease expired and no worker took over."""
    ow.cursors.acquire("leads", "host/1/a", 60)
    assert found(ow) == []
    ow_time.advance(seconds=61)
    finding = only(ow)
    assert finding.kind == "abandoned cursor"
    assert "host/1/a" in finding.what
    assert finding.since == ow.cursors.show("leads").lease_expires_at


def measured(ow: Onceward, **row: Any) -> None:
    rows = orjson.dumps([{"cursor": "leads", "processed": 0, "rate": 0.0, **row}]).decode()
    ow.store.run_in_own_transaction(lambda tx: tx.query("measure_write", rows=rows))


def test_a_cursor_that_is_held_and_does_not_move_is_stuck(
    ow: Onceward, settle: Callable[[str], None]
) -> None:
    """Taking it from its worker settles it; one that moves is only busy."""
    lease = ow.cursors.acquire("leads", "w", 3600)
    assert lease is not None
    lease.checkpoint("6")
    measured(ow, messages=9, seconds=100)
    assert found(ow) == []
    measured(ow, messages=9, seconds=1000, rate=5.0)
    assert found(ow) == []
    measured(ow, messages=9, seconds=1000)
    finding = only(ow)
    assert finding.kind == "stuck cursor"
    settle(finding.settle[0])
    state = ow.cursors.show("leads")
    assert (state.position, state.lease_owner) == ("6", None)
    assert [each.kind for each in found(ow)] == ["cursor behind"]


def test_a_lagging_cursor_without_a_worker_is_reported(ow: Onceward) -> None:
    """By its measure; one that has caught up is not."""
    lease = ow.cursors.acquire("leads", "w")
    assert lease is not None
    lease.release()
    measured(ow, messages=0, seconds=0)
    assert found(ow) == []
    measured(ow, messages=9, seconds=1)
    finding = only(ow)
    assert (finding.kind, finding.what) == (
        "cursor behind",
        "9 messages wait, and no worker holds the cursor",
    )


class Waiting(ListSource):
    def lag(self, after: str | None) -> Lag:
        left = len(self.values) - int(after or 0)
        return Lag(messages=left, oldest_at=datetime(2026, 2, 1, tzinfo=UTC) if left else None)


class Failing(ListSource):
    """A source that does not answer."""

    def read(self, after: str | None, limit: int) -> Sequence[Item]:
        raise ConnectionError(after, limit)


def test_an_app_asks_its_sources(ow: Onceward) -> None:
    """The truth of now, for cursors that were never begun, too."""
    app = App(ow)
    app.consumer("leads", source=Waiting(1, 2, 3))(lambda _: None)
    app.consumer("fresh", source=Waiting(1))(lambda _: None)
    app.consumer("blind", source=ListSource(1))(lambda _: None)
    lease = ow.cursors.acquire("leads", "w")
    assert lease is not None
    lease.checkpoint("1")
    lease.release()
    measured(ow, messages=99, seconds=1)
    findings = {each.subject: each for each in found(ow, app)}
    assert findings["leads"].what.startswith("2 messages wait")
    assert findings["leads"].since == "2026-02-01T00:00:00.000Z"
    assert findings["fresh"].what.startswith("1 message waits")
    assert "blind" not in findings
    lease = ow.cursors.acquire("leads", "w")
    assert lease is not None
    lease.checkpoint("3")
    lease.release()
    assert [each.subject for each in found(ow, app)] == ["fresh"]


@pytest.mark.parametrize("moved_by_hand", [True, False])
def test_a_position_that_its_source_refuses_is_reported(
    ow: Onceward, settle: Callable[[str], None], moved_by_hand: bool
) -> None:
    """A cursor that was moved too far can be undone; after its table was recreated, look first."""
    app = App(ow)
    app.consumer("leads", source=StrictSource(1, 2, 3))(lambda _: None)
    app.consumer("silent", source=Failing())(lambda _: None)

    def stand(name: str, position: str) -> None:
        lease = ow.cursors.acquire(name, "w")
        assert lease is not None
        lease.checkpoint(position)
        lease.release()

    stand("silent", "1")
    stand("leads", "3" if moved_by_hand else "400")
    if moved_by_hand:
        assert found(ow, app) == []
        ow.cursors.seek("leads", "400", "oops", "ana")
    finding = only(ow, app)
    assert (finding.kind, finding.subject) == ("refused position", "leads")
    assert "position 400 is beyond 3" in finding.what
    assert InvalidCursor.default_fix in finding.what
    assert (finding.since is not None) == moved_by_hand
    for command in finding.settle:
        settle(command)
    if moved_by_hand:
        assert (ow.cursors.show("leads").position, found(ow, app)) == ("3", [])
        stand("leads", "400")
    # Neither a move that was undone nor one that work has passed since is the cause.
    finding = only(ow, app)
    assert (finding.since, finding.settle) == (None, ("onceward cursors show leads",))
    ow.cursors.seek("leads", "2", "repeat", "ana")
    stand("leads", "500")
    assert only(ow, app).settle == ("onceward cursors show leads",)


def test_a_position_of_another_version_is_not_asked_about(ow: Onceward) -> None:
    """It has another form, which the source cannot know; the next worker migrates it."""
    app = App(ow)
    migrations = {1: lambda _: "1"}
    app.consumer("leads", source=StrictSource(1), version=2, migrations=migrations)(print)
    lease = ow.cursors.acquire("leads", "w", version=1)
    assert lease is not None
    lease.checkpoint("400")
    lease.release()
    assert found(ow, app) == []


def test_an_app_knows_which_versions_do_not_fit(ow: Onceward) -> None:
    """A cursor of other rules, of a partition too; one that can be migrated is none."""
    for name in ("leads", "orders", "niche_7", "other_7"):
        lease = ow.cursors.acquire(name, "w", version=2)
        assert lease is not None
        lease.checkpoint("1")
        lease.release()
    app = App(ow)
    app.consumer("leads", source=ListSource(), version=1)(lambda _: None)
    app.consumer("orders", source=ListSource(), version=3, migrations={2: str})(lambda _: None)
    app.consumer("niche_{id}", source=ListPartitions(), version=3)(lambda _: None)
    findings = [each for each in found(ow, app) if each.kind == "version mismatch"]
    assert [each.subject for each in findings] == ["leads", "niche_7"]
    assert "'leads'" in findings[0].what
    assert "this worker is at version 1" in findings[0].what
    assert "deploy" in findings[0].what


@pytest.fixture
def status(run: Run, ow_url: str) -> Run:
    """`onceward status` on the store under test."""
    return lambda *words: run("status", "--store", ow_url, *words)


def test_the_command_says_what_settles_it(ow: Onceward, status: Run, run: Run) -> None:
    """Exit 0 for nothing, 1 for findings, with commands that name the same store."""
    assert status().out == "no unfinished work\n"
    assert status("--json").json == {"findings": []}
    lease = ow.cursors.acquire("leads", "w")
    assert lease is not None
    lease.release()
    ow.cursors.pause("leads", "evil \x1b[2J", "ana")
    ran = status()
    assert ran.code == 1
    assert "\x1b" not in ran.out
    assert ran.out.splitlines()[0] == "paused cursor: leads"
    assert ran.out.splitlines()[-1] == "1 finding"
    (finding,) = status("--json").json["findings"]
    assert list(finding) == ["kind", "subject", "what", "since", "settle"]
    (command,) = finding["settle"]
    assert command in ran.out
    assert "--store" in command
    assert run(*shlex.split(command)[1:]).code == 0
    assert status().code == 0


def test_a_password_is_not_repeated() -> None:
    """A command then leaves the store out."""
    from onceward.cli.status import _with_store

    finding = UnfinishedItem(
        kind="paused cursor", subject="c", what="", since=None, settle=("onceward x",)
    )
    named = _with_store(finding, "postgresql://ana@db/work")
    assert named.settle == ("onceward x --store postgresql://ana@db/work",)
    for url in ("postgresql://ana:pw@db/work", "postgresql://db/work?password=pw"):
        assert _with_store(finding, url).settle == ("onceward x",)
