"""What operators do to cursors, and what psql shows them: the same on both engines."""

import pytest

from onceward.client import Onceward
from onceward.cursors import Cursors, Lease, cursors
from onceward.errors import (
    CursorMissing,
    InvalidArgument,
    LeaseLost,
    NothingToUndo,
    VersionMismatch,
)
from onceward.testing.moving_time import MovingTime

AGREED = (
    ("cursor_name", "text"),
    ("last_position", "text"),
    ("last_processed_at", "timestamptz"),
    ("lease_owner", "text"),
    ("lease_expires_at", "timestamptz"),
    ("error_count", "integer"),
    ("paused", "boolean"),
    ("metadata", "jsonb"),
)
OURS = (
    "lease_epoch",
    "steal_count",
    "processed_count",
    "rules_version",
    "created_at",
    "updated_at",
)
SQLITE_CLOCK = ("lease_expires_boot", "lease_boot_id")


def at(ow: Onceward, position: str | None, worker: str = "w1") -> Lease:
    """A cursor at this position, held."""
    lease = ow.cursors.acquire("c", worker)
    assert lease is not None
    if position is not None:
        lease.checkpoint(position)
    return lease


def between(start: str | None, end: str | None) -> int:
    """Messages are numbered from 1."""
    return max(0, int(end or 0) - int(start or 0))


def test_the_table_has_exactly_the_agreed_columns_then_ours(ow: Onceward) -> None:
    """The table has the columns of its specification, for psql or any other client."""
    with ow.transaction() as tx:
        if ow.store.engine == "sqlite":
            rows = tx.execute("pragma table_info(cursor_positions)")
            found = [(row[1], row[2].lower()) for row in rows]
            indexes = {row[1] for row in tx.execute("pragma index_list(cursor_positions)")}
        else:
            names = {"timestamp with time zone": "timestamptz"}
            found = [
                (row[0], names.get(row[1], row[1]))
                for row in tx.execute(
                    "select column_name, data_type from information_schema.columns"
                    " where table_name = 'cursor_positions' order by ordinal_position"
                )
            ]
            sql = "select indexname from pg_indexes where tablename = 'cursor_positions'"
            indexes = {row[0] for row in tx.execute(sql)}
    assert tuple(found[: len(AGREED)]) == AGREED
    extra = SQLITE_CLOCK if ow.store.engine == "sqlite" else ()
    assert tuple(name for name, _ in found[len(AGREED) :]) == OURS + extra
    assert "idx_cursor_positions_lease_expires_at" in indexes


def test_the_three_agreed_functions_exist() -> None:
    """Acquire, renew, checkpoint: by these names."""
    assert callable(Cursors.acquire)
    assert callable(Lease.renew)
    assert callable(Lease.checkpoint)


@pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
def test_a_table_that_was_there_before_us_is_taken_over(ow_url: str, ow: Onceward) -> None:
    """Rows made by other programs of the same specification keep their positions."""
    from onceward.client import open as open_handle

    with ow.transaction() as tx:
        tx.execute("drop schema public cascade")
        tx.execute("create schema public")
        tx.execute(
            "create table cursor_positions (cursor_name text primary key, last_position text,"
            " last_processed_at timestamptz default now(), lease_owner text,"
            " lease_expires_at timestamptz, error_count integer default 0,"
            " paused boolean default false, metadata jsonb default '{}')"
        )
        tx.execute("insert into cursor_positions (cursor_name, last_position) values ('c', '41')")
    with open_handle(ow_url) as again:
        assert at(again, None).position == "41"


def test_a_seek_under_a_live_worker_wins(ow: Onceward) -> None:
    """The worker's next checkpoint is refused, and the position is the operator's."""
    lease = at(ow, "50")
    move = ow.cursors.seek("c", "10", reason="bad deploy", actor="ana")
    assert (move.from_position, move.to_position, move.interrupts) == ("50", "10", "w1")
    assert (move.epoch, move.is_dry_run) == (2, False)
    with pytest.raises(LeaseLost):
        lease.checkpoint("51")
    with pytest.raises(LeaseLost), ow.transaction() as tx:
        lease.checkpoint("51", tx=tx)
    again = at(ow, None)
    assert (again.position, again.epoch) == ("10", 3)
    (entry,) = ow.cursors.history("c")
    assert (entry.kind, entry.actor, entry.reason) == ("seek", "ana", "bad deploy")
    assert (entry.from_position, entry.to_position, entry.epoch) == ("50", "10", 2)


def test_a_dry_run_says_what_would_happen_and_does_nothing(ow: Onceward) -> None:
    """How much would be repeated or skipped, where the source can count; else it is unknown."""
    lease = at(ow, "50")
    back = ow.cursors.seek("c", "10", "why", "ana", dry_run=True, count=between)
    assert (back.repeated, back.skipped, back.is_dry_run) == (40, 0, True)
    ahead = ow.cursors.seek("c", "60", "why", "ana", dry_run=True, count=between)
    assert (ahead.repeated, ahead.skipped, ahead.interrupts) == (0, 10, "w1")
    start = ow.cursors.seek("c", None, "why", "ana", dry_run=True, count=between)
    assert (start.repeated, start.to_position) == (50, None)
    unknown = ow.cursors.seek("c", "10", "why", "ana", dry_run=True)
    assert (unknown.repeated, unknown.skipped) == (None, None)
    lease.checkpoint("51")
    assert ow.cursors.history("c") == ()


def test_a_seek_can_be_undone_and_so_can_the_one_before(ow: Onceward) -> None:
    """Each undo goes back one seek; it is recorded, and fences as a seek does."""
    at(ow, "50")
    ow.cursors.seek("c", "10", "first", "ana")
    ow.cursors.seek("c", "20", "second", "ana")
    lease = at(ow, None)
    assert ow.cursors.undo("c", "ben", dry_run=True).to_position == "10"
    assert ow.cursors.undo("c", "ben", count=between).repeated == 10
    with pytest.raises(LeaseLost):
        lease.checkpoint("21")
    move = ow.cursors.undo("c", "ben", "all of it")
    assert (move.from_position, move.to_position) == ("10", "50")
    for dry_run in (True, False):
        with pytest.raises(NothingToUndo):
            ow.cursors.undo("c", "ben", dry_run=dry_run)
    entries = ow.cursors.history("c")
    assert [entry.kind for entry in entries] == ["undo", "undo", "seek", "seek"]
    assert [entry.undoes for entry in entries] == [entries[3].id, entries[2].id, None, None]
    assert len({entry.epoch for entry in entries}) == 4


def test_a_seek_is_part_of_the_users_transaction(ow: Onceward) -> None:
    """What belongs to a move, such as dropping parked messages, happens with it or not at all."""
    at(ow, "50").release()
    with pytest.raises(ZeroDivisionError), ow.transaction():
        ow.cursors.seek("c", "10", "why", "ana")
        raise ZeroDivisionError
    assert ow.cursors.show("c").position == "50"
    assert ow.cursors.history("c") == ()


def test_pausing_and_resuming_are_recorded_once(ow: Onceward) -> None:
    """Pausing what is paused changes nothing and records nothing."""
    at(ow, "5")
    assert ow.cursors.pause("c", "lunch", "ana").is_paused
    assert ow.cursors.pause("c", "again", "ben").is_paused
    assert not ow.cursors.resume("c").is_paused
    resumed, paused = ow.cursors.history("c")
    assert (paused.kind, paused.actor, paused.reason) == ("pause", "ana", "lunch")
    assert (resumed.kind, resumed.from_position, resumed.to_position) == ("resume", "5", "5")
    assert "@" in resumed.actor


def test_history_is_newest_first_and_limited(ow: Onceward) -> None:
    """A long history is read from its end."""
    at(ow, "0")
    for number in range(5):
        ow.cursors.seek("c", str(number), f"reason {number}", "ana")
    assert [entry.to_position for entry in ow.cursors.history("c", 2)] == ["4", "3"]
    for limit in (0, -1, 10**9):
        with pytest.raises(InvalidArgument):
            ow.cursors.history("c", limit)


def test_cursors_are_listed_by_pattern(ow: Onceward, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names match as file names do, and capitals are not small letters."""
    names = ("niche_2", "niche_1", "Niche_3", "lead_intake_v1")
    for name in names:
        ow.cursors.acquire(name, "w1")
    assert [state.name for state in ow.cursors.list("niche_*")] == ["niche_1", "niche_2"]
    assert len(ow.cursors.list()) == 4
    monkeypatch.setattr(cursors, "LIST_PAGE_ROWS", 2)
    assert sorted(state.name for state in ow.cursors.list("*_*")) == sorted(names)
    monkeypatch.setattr(cursors, "LIST_ROWS_MAX", 3)
    assert len(ow.cursors.list()) == 3
    assert ow.cursors.list("nothing") == ()


def test_what_does_not_exist_is_named(ow: Onceward) -> None:
    """An operator who mistypes a name gets an error; nothing is created by it."""
    for call in (
        lambda: ow.cursors.show("nope"),
        lambda: ow.cursors.pause("nope"),
        lambda: ow.cursors.resume("nope"),
        lambda: ow.cursors.seek("nope", "1", "why", "ana"),
        lambda: ow.cursors.undo("nope", "ana"),
    ):
        with pytest.raises(CursorMissing) as missing:
            call()
        assert missing.value.context["cursor"] == "nope"
    assert ow.cursors.list() == ()
    assert ow.cursors.history("nope") == ()


def test_a_position_of_an_older_version_is_migrated_under_the_lease(ow: Onceward) -> None:
    """Step by step, recorded, and once."""
    at(ow, "7").release()
    calls: list[str] = []

    def prefix(position: str) -> str:
        calls.append(position)
        return f"offset:{position}"

    migrations = {1: prefix, 2: str.upper}
    lease = ow.cursors.acquire("c", "w2", version=3, migrations=migrations)
    assert lease is not None
    assert lease.position == ow.cursors.show("c").position == "OFFSET:7"
    assert ow.cursors.show("c").version == 3
    lease.release()
    assert ow.cursors.acquire("c", "w3", version=3, migrations=migrations) is not None
    assert calls == ["7"]
    (entry,) = ow.cursors.history("c")
    assert (entry.kind, entry.actor, entry.reason) == ("migration", "w2", "version 1 to 3")
    assert (entry.from_position, entry.to_position) == ("7", "OFFSET:7")


def test_another_version_without_migrations_is_rejected(ow: Onceward) -> None:
    """A gap in the migrations, or a newer position: nothing is taken, and the error says why."""
    at(ow, "7").release()
    for version, stored in ((2, 1), (3, 1)):
        with pytest.raises(VersionMismatch) as refused:
            ow.cursors.acquire("c", "w2", version=version, migrations={2: str})
        assert (refused.value.cursor, refused.value.stored) == ("c", stored)
        assert refused.value.wanted == version
    assert ow.cursors.acquire("c", "w2", version=2, migrations={1: str}) is not None
    with pytest.raises(VersionMismatch):
        ow.cursors.acquire("c", "w2", version=1, migrations={1: str})
    assert ow.cursors.show("c").version == 2


def test_a_cursor_that_has_no_position_yet_takes_the_workers_version(ow: Onceward) -> None:
    """New cursors begin with it; an administrator's row without a position needs no migration."""
    assert ow.cursors.acquire("new", "w1", version=4) is not None
    assert ow.cursors.show("new").version == 4
    with ow.transaction() as tx:
        tx.execute("insert into cursor_positions (cursor_name) values ('made')")
    assert ow.cursors.acquire("made", "w1", version=4) is not None
    assert ow.cursors.show("made").version == 4


def test_a_migration_that_fails_gives_the_lease_back(ow: Onceward) -> None:
    """The error is the user's, and the next attempt need not wait for a lease to expire."""
    at(ow, "7").release()

    def broken(_: str) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ow.cursors.acquire("c", "w2", version=2, migrations={1: broken})
    assert ow.cursors.acquire("c", "w3") is not None


def test_a_lease_lost_during_a_migration_names_the_current_epoch(ow: Onceward) -> None:
    """Not that the cursor no longer exists: it does, under the epoch of the seek."""
    at(ow, "7").release()

    def sought(position: str) -> str:
        ow.cursors.seek("c", None, "seek during the migration", "op")
        return position

    with pytest.raises(LeaseLost, match="the current epoch is") as lost:
        ow.cursors.acquire("c", "w2", version=2, migrations={1: sought})
    assert lost.value.current_epoch == ow.cursors.show("c").epoch


def test_times_are_text_in_utc_on_both_engines(ow: Onceward, ow_time: MovingTime) -> None:
    """The same form everywhere, milliseconds and a Z, and they move with the store's time."""
    at(ow, "1")
    before = ow.cursors.show("c")
    ow_time.advance(seconds=3600)
    at(ow, "2")
    after = ow.cursors.show("c")
    for old, new in (
        (before.last_processed_at, after.last_processed_at),
        (before.lease_expires_at, after.lease_expires_at),
        (before.updated_at, after.updated_at),
    ):
        assert old is not None
        assert new is not None
        assert (len(old), old[-1], old[10]) == (24, "Z", "T")
        assert old < new
    assert after.created_at == before.created_at
