-- Cursors: positions, leases with their epochs (fencing tokens), history, and rejected stale writes.

-- name: cursor_acquire
-- Grant the lease when it is free, expired or the worker's own, never while paused; else return no row.
-- sqlite:
insert into cursor_positions (
  cursor_name, last_processed_at, lease_owner, lease_expires_at, lease_expires_boot, lease_boot_id,
  lease_epoch, rules_version, created_at, updated_at
) values (
  :name, {{ now }}, :worker, {{ after(:seconds) }},
  :now + :seconds, :boot, 1, :version, {{ now }}, {{ now }}
)
on conflict (cursor_name) do update set
  lease_owner = excluded.lease_owner,
  lease_expires_at = excluded.lease_expires_at,
  lease_expires_boot = excluded.lease_expires_boot,
  lease_boot_id = excluded.lease_boot_id,
  lease_epoch = lease_epoch + 1,
  steal_count = steal_count + (lease_owner is not null and lease_owner <> excluded.lease_owner),
  updated_at = excluded.updated_at
where not coalesce(paused, false) and (
  lease_owner is null
  or lease_owner = :worker
  or (:may_take_over and (
    lease_expires_at is null
    or lease_expires_boot is null
    or lease_boot_id is not :boot
    or lease_expires_boot < :now
  ))
)
returning lease_epoch, last_position, rules_version
-- postgres:
select lease_epoch, last_position, rules_version
from onceward_cursor_acquire(
  :name::text, :worker::text, :seconds::double precision, :version::integer
)

-- name: cursor_block_changes
-- Block changes of a cursor by other transactions until this one ends; handlers keep running.
select cursor_name from cursor_positions where cursor_name = :name {{ lock(no key update) }}

-- name: cursor_checkpoint
-- Move the holder's position and renew its lease, fenced by owner and epoch.
-- sqlite:
-- Changes no row when the lease is lost.
update cursor_positions set
  last_position = :position,
  last_processed_at = {{ now }},
  error_count = 0,
  processed_count = processed_count + :count,
  {{ lease_renewed }}
where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch
-- postgres:
-- Raises OW001 in the database when the lease is lost: the commit is already on its way. The advisory lock lets a
-- worker that takes over find and end a client that freezes in between. The functions are in schema/postgres.sql.
select :epoch::bigint from onceward_cursor_checkpoint(
  :name::text, :worker::text, :epoch::bigint, :position::text, :count::bigint,
  :seconds::double precision
), pg_advisory_xact_lock_shared(onceward_cursor_key(:name::text))

-- name: cursor_details
-- Return details of the named cursors: last history entry, who paused it, the message that blocks it,
-- parked messages and dead letters (counted up to :most), seconds since the lease expired and until the next attempt.
-- sqlite:
select cursor.cursor_name,
  (select max(id) from cursor_history as entry where entry.cursor_name = cursor.cursor_name),
  pause.actor, pause.reason,
  attempt.position, attempt.attempt, attempt.due_at, attempt.first_failed_at,
  substr(attempt.failures -> '$[#-1]' ->> 'error', 1, 2000),
  (select count(*) from (select 1 from onceward_parked where cursor_name = cursor.cursor_name limit :most)),
  (select count(*) from (
    select 1 from onceward_dead where state = 'dead' and cursor_name = cursor.cursor_name limit :most)),
  {{ since(cursor.lease_expires_at) }},
  {{ remaining(attempt.due) }}
from json_each(:names) as named
join cursor_positions as cursor on cursor.cursor_name = named.value
left join cursor_history as pause on cursor.paused and pause.id = (
  select max(id) from cursor_history as entry where entry.cursor_name = cursor.cursor_name and kind = 'pause')
left join onceward_attempts as attempt on attempt.rowid = (
  select rowid from onceward_attempts as failed
  where failed.cursor_name = cursor.cursor_name and failed.position is distinct from cursor.last_position
  order by sequence limit 1)
-- postgres:
select cursor.cursor_name,
  (select max(id) from cursor_history as entry where entry.cursor_name = cursor.cursor_name),
  pause.actor, pause.reason,
  attempt.position, attempt.attempt, {{ text(attempt.due_at) }}, {{ text(attempt.first_failed_at) }},
  left(attempt.failures -> -1 ->> 'error', 2000),
  (select count(*) from (
    select 1 from onceward_parked where cursor_name = cursor.cursor_name limit :most) as parked),
  (select count(*) from (
    select 1 from onceward_dead where state = 'dead' and cursor_name = cursor.cursor_name limit :most) as dead),
  {{ since(cursor.lease_expires_at) }},
  {{ remaining(attempt.due) }}
from jsonb_array_elements_text(:names::jsonb) as named (name)
join cursor_positions as cursor on cursor.cursor_name = named.name
left join lateral (
  select actor, reason from cursor_history as entry
  where cursor.paused and entry.cursor_name = cursor.cursor_name and kind = 'pause'
  order by id desc limit 1
) as pause on true
left join lateral (
  select * from onceward_attempts as failed
  where failed.cursor_name = cursor.cursor_name and failed.position is distinct from cursor.last_position
  order by sequence limit 1
) as attempt on true

-- name: cursor_fail
-- Count one more consecutive failure of the holder and return the number; no row when the lease is lost.
update cursor_positions set
  error_count = coalesce(error_count, 0) + 1,
  updated_at = {{ now }}
where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch
returning error_count

-- name: cursor_guard
-- Keep the lease with its holder until the transaction ends.
-- sqlite:
-- Returns no row when it is lost. The write lock keeps every other worker from taking it.
select lease_epoch from cursor_positions
where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch
-- postgres:
-- Raises OW001 when it is lost.
select :epoch::bigint
from onceward_cursor_guard(:name::text, :worker::text, :epoch::bigint)

-- name: cursor_history
-- List the operator actions on a cursor and its takeovers, newest first.
select id, cursor_name, kind, {{ text(happened_at) }}, actor, reason, from_position,
  to_position, epoch, undoes
from cursor_history where cursor_name = :name
order by id desc limit :limit

-- name: cursor_last_move
-- Return the target of the last seek or undo: messages read since then are after it.
select to_position from cursor_history
where cursor_name = :name and (kind = 'seek' or kind = 'undo')
order by id desc limit 1

-- name: cursor_last_seek
-- Return the last seek that was not undone.
select id, from_position from cursor_history as seek
where cursor_name = :name and kind = 'seek'
  and not exists (select 1 from cursor_history where undoes = seek.id)
order by id desc limit 1

-- name: cursor_list
-- Return the state of the cursors after a name, and whether each lease is held.
select {{ cursor_columns }}
from (select *, {{ is_held }} as is_held from cursor_positions) as cursor
where cursor_name > :after
order by cursor_name limit :limit

-- name: cursor_lock
-- Return a cursor's position and owner, locked until the transaction ends.
-- sqlite:
-- The write lock of the file protects them.
select cursor_name, last_position, lease_owner
from cursor_positions where cursor_name = :name
-- postgres:
-- Locks against guards, too. Returns nulls when there is no such cursor.
select cursor_name, last_position, lease_owner
from onceward_cursor_lock(:name::text)

-- name: cursor_mark
-- Let a worker that takes the cursor over find this transaction and end it.
-- sqlite:
-- No worker takes over while this one holds the write lock, so there is nothing to mark.
select :epoch where :name is not null and :worker is not null
-- postgres:
-- Raises OW001 when the lease is lost.
select :epoch::bigint
from onceward_cursor_mark(:name::text, :worker::text, :epoch::bigint)

-- name: cursor_move
-- Set the position. The epoch rises and the owner is cleared, so a stale worker's writes are rejected.
update cursor_positions set
  last_position = :position,
  lease_epoch = lease_epoch + 1,
  lease_owner = null,
  {{ no_lease }},
  updated_at = {{ now }}
where cursor_name = :name
returning lease_epoch

-- name: cursor_page
-- Examine the next :scan cursors after a name. Return those that match, and the last one examined.
-- After each cursor: whether it matches, and how many were examined. :is_rest excludes cursors with waiting messages.
select {{ cursor_columns }}, {{ no_number }}, matches, examined
from (
  select *, row_number() over (order by cursor_name) as number, count(*) over () as examined,
    (cast(:pattern as text) is null or cursor_name {{ like }} cast(:pattern as text) escape '\')
      and (cast(:state as text) is null or :state = {{ cursor_state }})
      and not (cast(:is_rest as boolean) and exists (
        select 1 from onceward_measures as measure
        where measure.cursor_name = cursor.cursor_name and measure.waiting_since is not null
      )) as matches
  from (
    select *, {{ is_held }} as is_held
    from cursor_positions
    where cursor_name > :after and (substr(cursor_name, 1, 1) = '~') = cast(:is_own as boolean)
    order by cursor_name limit :scan
  ) as cursor
) as scanned
where matches or number = examined
order by cursor_name limit :limit

-- name: cursor_pass
-- Move the holder's position past messages that failed or are parked, count the failures, and renew its lease.
-- sqlite:
-- Changes no row when the lease is lost.
update cursor_positions set
  last_position = :position,
  last_processed_at = {{ now }},
  error_count = coalesce(error_count, 0) + :failed,
  processed_count = processed_count + :count,
  {{ lease_renewed }}
where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch
-- postgres:
-- As `cursor_checkpoint`: raises OW001 when the lease is lost, and can be found by its lock. The functions are in
-- schema/postgres.sql.
with moved as (
  update cursor_positions set
    last_position = :position::text,
    last_processed_at = t.moment,
    error_count = coalesce(error_count, 0) + :failed::int,
    processed_count = processed_count + :count::bigint,
    lease_expires_at = case when paused then lease_expires_at
      else t.moment + make_interval(secs => :seconds::double precision) end,
    updated_at = t.moment
  from (select onceward_now() as moment) as t
  where cursor_name = :name::text and lease_owner = :worker::text and lease_epoch = :epoch::bigint
  returning 1
)
select :epoch::bigint,
  (select onceward_lease_lost(:name::text, :epoch::bigint) where not exists (select from moved))
from pg_advisory_xact_lock_shared(onceward_cursor_key(:name::text))

-- name: cursor_pause
-- Pause or resume a cursor; no row if its state is unchanged.
update cursor_positions set paused = cast(:paused as boolean), updated_at = {{ now }}
where cursor_name = :name and coalesce(paused, false) <> cast(:paused as boolean)
returning lease_epoch, last_position

-- name: cursor_release
-- Release the holder's lease; no row if it is lost.
update cursor_positions set
  lease_owner = null,
  {{ no_lease }},
  updated_at = {{ now }}
where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch
returning lease_epoch

-- name: cursor_renew
-- Extend the holder's lease unless the cursor is paused, and return whether it is; no row when the lease is lost.
update cursor_positions set
  {{ lease_renewed }}
where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch
returning coalesce(paused, false)

-- name: cursor_rewrite
-- Rewrite the holder's position in the format of another version; no row if the lease is lost.
update cursor_positions set
  last_position = :position,
  rules_version = :version,
  updated_at = {{ now }}
where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch
returning lease_epoch

-- name: cursor_show
-- Return the state of one cursor, and whether its lease is held.
select {{ cursor_columns }}
from (select *, {{ is_held }} as is_held from cursor_positions) as cursor
where cursor_name = :name

-- name: cursor_undoable
-- Return the last seek that was not undone: its source, target and time.
select id, from_position, to_position, {{ text(happened_at) }} from cursor_history as seek
where cursor_name = :name and kind = 'seek'
  and not exists (select 1 from cursor_history where undoes = seek.id)
order by id desc limit 1

-- name: cursor_waiting
-- Examine the next :scan cursors by the age of their oldest message, like `cursor_page`.
-- After each cursor: since when its messages wait.
select {{ cursor_columns }}, waiting_since, matches, examined
from (
  select *, row_number() over (order by waiting_since, cursor_name) as number, count(*) over () as examined,
    (cast(:pattern as text) is null or cursor_name {{ like }} cast(:pattern as text) escape '\')
      and (cast(:state as text) is null or :state = {{ cursor_state }}) as matches
  from (
    select cursor.*, waiting_since, {{ is_held }} as is_held
    from onceward_measures as measure
    join cursor_positions as cursor on cursor.cursor_name = measure.cursor_name
    where waiting_since is not null and (substr(measure.cursor_name, 1, 1) = '~') = cast(:is_own as boolean)
      and (waiting_since, measure.cursor_name) > ({{ float(:since) }}, cast(:after as text))
    order by waiting_since, measure.cursor_name limit :scan
  ) as waiting
) as scanned
where matches or number = examined
order by waiting_since, cursor_name limit :limit

-- name: grant_list
-- List the grants of a cursor, newest first.
select cursor_name, epoch, worker, {{ text(granted_at) }}, {{ text(ended_at) }}, ending,
  {{ text(expired_at) }}
from onceward_grants where cursor_name = :name
order by id desc limit :limit

-- name: grant_prune
-- Delete the grants that ended first, in batches, when they are old or more than :most came after them.
delete from onceward_grants where id in (
  select id from (
    select id, ended_at from onceward_grants where ended_at is not null order by ended_at limit :limit
    {{ lock(update skip locked) }}
  ) as oldest
  where ended_at < {{ ago(:seconds) }}
    or id <= (select max(id) from onceward_grants) - :most
)
returning 1

-- name: grant_recent
-- List grants that ended in the last :seconds seconds, latest first, each with the worker that took over.
select cursor_name, epoch, worker, {{ text(granted_at) }}, {{ text(ended_at) }}, ending,
  {{ text(expired_at) }},
  case when ending = 'stolen' then (
    select later.worker from onceward_grants as later
    where later.cursor_name = granted.cursor_name and later.id > granted.id order by later.id limit 1
  ) end
from onceward_grants as granted
where ended_at > {{ ago(:seconds) }}
order by ended_at desc limit :limit

-- name: history_add
-- Record an action on a cursor, with its actor and reason.
insert into cursor_history
  (cursor_name, kind, happened_at, actor, reason, from_position, to_position, epoch, undoes)
values (:name, :kind, {{ now }}, :actor, :reason, :from_position, :to_position, :epoch, :undoes)
returning id

-- name: history_prune
-- Delete old entries with an id above :after and up to :upto. Seeks, undos and each cursor's last entry of a kind stay.
delete from cursor_history where id in (
  select id from cursor_history as entry
  where id > :after and id <= :upto and kind <> 'seek' and kind <> 'undo'
    and happened_at < {{ ago(:seconds) }}
    and id < (
      select max(id) from cursor_history as same
      where same.cursor_name = entry.cursor_name and same.kind = entry.kind
    )
  order by id {{ lock(update skip locked) }}
)
returning 1

-- name: history_window
-- Return the last of the next :limit entries after an id, their number, and the number of old ones.
select max(id), count(*), count(case when happened_at < {{ ago(:seconds) }} then 1 end)
from (select id, happened_at from cursor_history where id > :after order by id limit :limit) as following

-- name: lease_list
-- List current and expired leases, latest expiry first.
-- After each: seconds until it expires, whether it is held, and when it was granted.
select cursor_name, lease_epoch, lease_owner, {{ text(lease_expires_at) }}, {{ lease_remaining }}, {{ is_held }},
  (select {{ text(granted_at) }} from onceward_grants as granted
    where granted.cursor_name = cursor.cursor_name and granted.epoch = cursor.lease_epoch and ended_at is null
    order by id desc limit 1)
from cursor_positions as cursor
where lease_expires_at is not null and lease_owner is not null and substr(cursor_name, 1, 1) <> '~'
order by lease_expires_at desc limit :limit

-- name: rejected_write_add
-- Record a rejected stale write and the cursor's present holder, once for each kind of write.
insert into onceward_rejected_writes
  (cursor_name, happened_at, worker, epoch, current_epoch, current_owner, what)
values (cast(:name as text), {{ now }}, :worker, :epoch,
  (select lease_epoch from cursor_positions where cursor_name = :name),
  (select lease_owner from cursor_positions where cursor_name = :name), :what)
on conflict (cursor_name, epoch, what) do nothing

-- name: rejected_write_list
-- List the rejected stale writes of a cursor, newest first.
select cursor_name, {{ text(happened_at) }}, worker, epoch, current_epoch, current_owner, what
from onceward_rejected_writes where cursor_name = :name
order by id desc limit :limit

-- name: rejected_write_recent
-- List the stale writes rejected in the last :seconds seconds, latest first.
select cursor_name, {{ text(happened_at) }}, worker, epoch, current_epoch, current_owner, what
from (select * from onceward_rejected_writes order by id desc limit :limit) as latest
where happened_at > {{ ago(:seconds) }}
order by id desc

-- name: rejected_write_prune
-- Delete old records of rejected writes, in batches.
delete from onceward_rejected_writes where id in (
  select id from (
    select id, happened_at from onceward_rejected_writes order by id limit :limit {{ lock(update skip locked) }}
  ) as oldest
  where happened_at < {{ ago(:seconds) }}
    or id <= (select max(id) from onceward_rejected_writes) - :most
)
returning 1
