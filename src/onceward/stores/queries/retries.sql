-- Retries: attempts by position, parked messages, dead letters, and the retries that a seek discarded.

-- name: attempt_delete
-- Remove the attempts of several positions.
delete from onceward_attempts where cursor_name = :cursor
  and position {{ in_texts(:positions) }}

-- name: attempt_forget
-- Delete the attempts of a position that succeeded or became a dead letter.
delete from onceward_attempts where cursor_name = :cursor and position = :position

-- name: attempt_list
-- List the failing positions of a cursor, in the order of their first failure.
select position, sequence from onceward_attempts where cursor_name = :cursor order by sequence

-- name: attempt_open
-- Return the failed messages that block their cursors, and the last error of each.
select attempts.cursor_name, attempts.position, attempts.attempt, {{ text(attempts.first_failed_at) }},
  {{ last_of(attempts.failures) }} ->> 'error'
from onceward_attempts as attempts
join cursor_positions as cursor on cursor.cursor_name = attempts.cursor_name
where cursor.last_position is distinct from attempts.position
order by attempts.first_failed_at, attempts.cursor_name limit :limit

-- name: attempt_read
-- Read the attempts of a failing position; it is due when wait_seconds is below zero.
select sequence, attempt,
  {{ remaining(due) }} as wait_seconds,
  due_at, {{ json_text(failures) }}, first_failed_at
from onceward_attempts
where cursor_name = :cursor and position = :position

-- name: attempt_write
-- Record one more failed attempt of a position, and when the next one is due.
insert into onceward_attempts as a (cursor_name, position, sequence, attempt,
  {{ due }}, failures, first_failed_at)
select :cursor, :position, :sequence, cast(:attempt as int), {{ due_in(:delay) }}, {{ with_failure('[]') }}, moment
from (select {{ now }} as moment) as t
where true
on conflict (cursor_name, position) do update set
  attempt = excluded.attempt,
  {{ set_due(:delay) }},
  failures = (select {{ with_failure(a.failures) }} from (select excluded.first_failed_at as moment) as t)

-- name: dead_change
-- Change a dead letter to redriven or dropped, once; no row when it is not dead.
update onceward_dead set state = :state, changed_at = {{ now }}, changed_by = :actor, reason = :reason,
  redrive_count = redrive_count + case when cast(:state as text) = 'redriven' then 1 else 0 end
where id = :id and state = 'dead'
returning cursor_name, position, sequence, key, alone, raw, group_name, first_seq, last_seq

-- name: dead_count
-- Count dead letters by cursor.
select name, number from onceward_counts where kind = 'dead' order by name

-- name: dead_cursor
-- Return the cursor of a dead letter.
select cursor_name from onceward_dead where id = :id

-- name: dead_expire
-- Drop old letters that no operator has settled, in batches.
update onceward_dead set state = 'dropped', changed_at = {{ now }}, changed_by = :actor, reason = :reason
where id in (
  select id from onceward_dead {{ indexed_by(onceward_dead_lately) }}
  where state = 'dead' and dead_at < {{ ago(:seconds) }}
  order by dead_at limit :limit {{ lock(update skip locked) }}
)
returning 1

-- name: dead_get
-- Return letters by id, in any state, and whether each blocks only itself.
select {{ letter_columns }}, length(raw), alone
from onceward_dead
where id {{ in_ids(:ids) }}
order by id

-- name: dead_lock
-- Lock these letters until the transaction ends, and return them.
-- sqlite:
-- In any order.
update onceward_dead set state = state
where id {{ in_ids(:ids) }}
returning {{ letter_columns }}, length(raw), alone
-- postgres:
-- In the order of cursors, which is the order of all locks on letters.
select {{ letter_columns }}, length(raw), alone
from onceward_dead
where id {{ in_ids(:ids) }}
order by cursor_name, id
for update

-- name: dead_lock_at
-- Lock the letters of these positions before the first of them is reopened.
select id from onceward_dead
where cursor_name = :cursor and position {{ in_texts(:positions) }}
order by cursor_name, id
{{ lock(update) }}

-- name: dead_matching
-- List matching dead letters, oldest first.
select id from onceward_dead
where state = 'dead' and (cast(:cursor as text) is null or cursor_name = :cursor)
  and (cast(:key as text) is null or key = :key)
  and ({{ time(:since) }} is null or dead_at >= {{ time(:since) }})
  and (cast(:source as text) is null or source = :source)
  and (cast(:error as text) is null or {{ error_contains(:error) }})
order by id limit :limit

-- name: dead_oldest
-- Count dead letters by cursor, and return the time of the oldest.
select cursor_name, count(*), {{ text(min(dead_at)) }}
from onceward_dead where state = 'dead'
group by cursor_name order by cursor_name

-- name: dead_page
-- Examine :scan letters before an id, newest first. Return those that match and the last one examined.
-- sqlite:
with chosen as (
  select id from (
    select id from onceward_dead where :state is null and id < :before order by id desc limit :scan
  )
  union all
  select id from (
    select id from onceward_dead where :cursor is null and state = :state and id < :before order by id desc limit :scan
  )
  union all
  select id from (
    select id from onceward_dead where state = :state and cursor_name = :cursor and id < :before
    order by id desc limit :scan
  )
),
judged as (
  select
    letter.*,
    (:cursor is null or cursor_name = :cursor) and (:key is null or key = :key)
    and (:since is null or dead_at >= :since) and (:source is null or source = :source)
    and (:error is null or {{ error_contains(:error) }})
    and (:words is null or instr(lower(cursor_name), lower(:words)) > 0 or instr(lower(position), lower(:words)) > 0
      or instr(lower(coalesce(key, '')), lower(:words)) > 0 or instr(lower(error_type), lower(:words)) > 0
      or instr(lower(error_message), lower(:words)) > 0) as is_wanted
  from (
    select id, cursor_name, position, key, state, error_type, error_message, attempt_count, first_failed_at, dead_at,
      redrive_count, changed_at, changed_by, reason, source, group_name, first_seq, last_seq, delivery_id,
      length(raw) as raw_size
    from chosen cross join onceward_dead using (id)
  ) as letter
)
select id, is_wanted, (select count(*) from chosen), id, cursor_name, position, key, state, error_type, error_message,
  attempt_count, first_failed_at, dead_at, redrive_count, changed_at, changed_by, reason,
  source, group_name, first_seq, last_seq, delivery_id, raw_size
from judged
where is_wanted or id = (select min(id) from chosen)
order by id desc
limit :limit
-- postgres:
with scanned as (
  (
    select * from onceward_dead where :state::text is null and id < :before::bigint order by id desc limit :scan
  )
  union all
  (
    select * from onceward_dead where :cursor::text is null and state = :state::text and id < :before::bigint
    order by id desc limit :scan
  )
  union all
  (
    select * from onceward_dead where state = :state::text and cursor_name = :cursor::text and id < :before::bigint
    order by id desc limit :scan
  )
),
judged as (
  select
    *,
    (:cursor::text is null or cursor_name = :cursor) and (:key::text is null or key = :key)
    and (:since::timestamptz is null or dead_at >= :since::timestamptz)
    and (:source::text is null or source = :source)
    and (:error::text is null or {{ error_contains(:error) }})
    and (:words::text is null or position(lower(:words) in lower(cursor_name)) > 0
      or position(lower(:words) in lower("position")) > 0 or position(lower(:words) in lower(coalesce(key, ''))) > 0
      or position(lower(:words) in lower(error_type)) > 0 or position(lower(:words) in lower(error_message)) > 0)
      as is_wanted
  from scanned
)
select id, is_wanted, (select count(*) from scanned), id, cursor_name, "position", key, state, error_type,
  error_message, attempt_count, first_failed_at, dead_at, redrive_count, changed_at, changed_by, reason,
  source, group_name, first_seq, last_seq, delivery_id, length(raw)
from judged
where is_wanted or id = (select min(id) from scanned)
order by id desc
limit :limit

-- name: dead_prune
-- Remove letters that were redriven or dropped long ago, in batches.
delete from onceward_dead where id in (
  select id from onceward_dead
  where state <> 'dead' and changed_at < {{ ago(:seconds) }}
  order by changed_at limit :limit {{ lock(update skip locked) }}
)
returning 1

-- name: dead_replay
-- Close the chat letters whose messages a replay delivers again, or remove the repeated part from them.
update onceward_dead
set state = case when first_seq >= :since then 'redriven' else state end,
  redrive_count = redrive_count + case when first_seq >= :since then 1 else 0 end,
  last_seq = case when first_seq >= :since then last_seq else :since - 1 end,
  changed_at = {{ now }}, changed_by = :actor, reason = :reason
where group_name = :group and state = 'dead' and last_seq >= :since

-- name: dead_replay_lock
-- Lock the chat letters that a replay changes, in the order in which all letters are locked.
select id from onceward_dead
where group_name = :group and state = 'dead' and last_seq >= :since
order by cursor_name, id
{{ lock(update) }}

-- name: dead_show
-- Read one dead letter with its message, trace and attempts.
select {{ letter_columns }}, length(raw), raw, error_trace, {{ json_text(failures) }}
from onceward_dead where id = :id

-- name: dead_write
-- Write a dead letter; a message that fails again reopens its letter.
insert into onceward_dead (cursor_name, position, sequence, key, alone, raw, state,
  error_type, error_message, error_trace, attempt_count, failures, first_failed_at, dead_at, changed_at,
  source, group_name, first_seq, last_seq, delivery_id)
select :cursor, :position, :sequence, cast(:key as text), cast(:alone as boolean), :raw, 'dead',
  :error_type, :error_message, :error_trace, cast(:attempt as int), {{ with_failure(:failures) }},
  coalesce({{ time(:first_failed_at) }}, moment), moment, moment,
  :source, cast(:group as text), cast(:first as bigint), cast(:last as bigint), cast(:delivery as bigint)
from (select {{ now }} as moment) as t
where true
on conflict (source, cursor_name, position) do update set
  sequence = excluded.sequence, key = excluded.key, alone = excluded.alone, raw = excluded.raw,
  state = 'dead', error_type = excluded.error_type, error_message = excluded.error_message,
  error_trace = excluded.error_trace, attempt_count = excluded.attempt_count,
  failures = excluded.failures, dead_at = excluded.dead_at, changed_at = excluded.changed_at,
  changed_by = '', reason = '', last_seq = excluded.last_seq, delivery_id = excluded.delivery_id
returning id

-- name: discarded_delete
-- Delete rows that a seek discarded.
delete from onceward_discarded where id {{ in_ids(:ids) }}

-- name: discarded_keep_attempts
-- Keep attempts that a seek discards, so that it can be undone.
insert into onceward_discarded (history_id, cursor_name, position, sequence, alone, attempt,
  {{ due }}, failures, first_failed_at)
select :history, cursor_name, position, sequence, true, attempt,
  {{ due }}, failures, first_failed_at
from onceward_attempts where cursor_name = :cursor
  and position {{ in_texts(:positions) }}

-- name: discarded_keep_parked
-- Keep parked messages that a seek discards, so that it can be undone.
insert into onceward_discarded (history_id, cursor_name, position, sequence, key, alone, raw, attempt,
  {{ due }}, failures, first_failed_at, parked_at)
select :history, cursor_name, position, sequence, key, alone, raw, attempt,
  {{ due }}, failures, first_failed_at, parked_at
from onceward_parked where cursor_name = :cursor
  and position {{ in_texts(:positions) }}

-- name: discarded_list
-- List the rows that a seek discarded, in order.
select position, sequence, key, alone, id, raw is not null
from onceward_discarded where history_id = :history order by id

-- name: discarded_others
-- List the rows that other seeks of a cursor discarded, in order.
select position, sequence, key, alone, id, raw is not null
from onceward_discarded where cursor_name = :cursor and history_id <> :history order by id

-- name: discarded_restore_attempts
-- Restore the attempts that a seek discarded.
insert into onceward_attempts (cursor_name, position, sequence, attempt,
  {{ due }}, failures, first_failed_at)
select cursor_name, position, sequence, attempt,
  {{ due }}, failures, first_failed_at
from onceward_discarded where raw is null and id {{ in_ids(:ids) }}

-- name: discarded_restore_parked
-- Restore the parked messages that a seek discarded; the head of each key is chosen afterwards.
insert into onceward_parked (cursor_name, position, sequence, key, alone, is_head, raw, attempt,
  {{ due }}, failures, first_failed_at, parked_at)
select cursor_name, position, sequence, key, alone, alone, raw, attempt,
  {{ due }}, failures, first_failed_at, parked_at
from onceward_discarded where raw is not null and id {{ in_ids(:ids) }}

-- name: parked_blocked
-- Return those of these keys that have a parked message, which blocks later ones.
select distinct key from onceward_parked
where cursor_name = :cursor and not alone and is_head
  and key {{ in_texts(:keys) }}

-- name: parked_count
-- Count parked messages by cursor.
select name, number from onceward_counts where kind = 'parked' order by name

-- name: parked_delete
-- Remove parked messages by position.
delete from onceward_parked where cursor_name = :cursor
  and position {{ in_texts(:positions) }}

-- name: parked_demote
-- Demote a head if an earlier message of its key is parked.
update onceward_parked set is_head = false
where cursor_name = :cursor and key = :key and not alone and is_head
  and sequence > (select min(o.sequence) from onceward_parked as o
    where o.cursor_name = :cursor and o.key = :key and not o.alone)

-- name: parked_due
-- List the due heads of a cursor: chosen by due time, returned in the order of parking.
-- Due right after the due time, not at that exact time.
-- sqlite:
{{ parked_boots }},
due (id) as (
  select id from (
    select id from onceward_parked where cursor_name = :cursor and is_head and due_boot is null limit :limit)
  union all
  select id from (
    select id from onceward_parked
    where cursor_name = :cursor and is_head and due_boot = :boot and due_seconds < :now
    order by due_seconds limit :limit)
  union all
  select id from (
    select other.id from boots cross join onceward_parked as other
    where boots.boot <> :boot and other.cursor_name = :cursor and other.is_head
      and other.due_boot = boots.boot and other.due_at < {{ now }}
    limit :limit)
)
select id, position, sequence, key, alone, raw, attempt, due_at, failures, first_failed_at, parked_at
from onceward_parked
where id in (select id from due)
order by sequence limit :limit
-- postgres:
select id, position, sequence, key, alone, raw, attempt, due_at, {{ json_text(failures) }}, first_failed_at, parked_at
from (
  (select * from onceward_parked where cursor_name = :cursor and is_head and due_at is null
    order by due_at nulls first, sequence limit :limit)
  union all
  (select * from onceward_parked where cursor_name = :cursor and is_head and due_at < {{ now }}
    order by due_at nulls first, sequence limit :limit)
) as due
order by sequence limit :limit

-- name: parked_due_cursors
-- List the cursors that have a due head.
-- Boot by boot through the index: each boot has its own clock.
-- sqlite:
with recursive boots (name, boot) as (
  select name, (select min(due_boot) from onceward_parked where cursor_name = name and is_head)
  from onceward_counts where kind = 'parked'
  union all
  select name, (
    select min(due_boot) from onceward_parked where cursor_name = name and is_head and due_boot > boots.boot)
  from boots where boots.boot is not null
)
select distinct name
from boots
where case
  when boot is null then
    exists (select 1 from onceward_parked where cursor_name = name and is_head and due_boot is null)
  when boot = :boot then
    exists (select 1 from onceward_parked
      where cursor_name = name and is_head and due_boot = boots.boot and due_seconds < :now)
  else
    exists (select 1 from onceward_parked
      where cursor_name = name and is_head and due_boot = boots.boot and due_at < {{ now }})
end
order by name
-- postgres:
select counted.name
from onceward_counts as counted
where counted.kind = 'parked' and (
  (select 1 from onceward_parked where cursor_name = counted.name and is_head and due_at is null limit 1) is not null
  or (select 1 from onceward_parked
    where cursor_name = counted.name and is_head and due_at < {{ now }} limit 1) is not null
)
order by counted.name

-- name: parked_insert
-- Park a message as the last of its key, once; as the head if it is the only one. Without a delay it is due at once.
insert into onceward_parked (cursor_name, position, sequence, key, alone, is_head, raw, attempt,
  {{ due }}, failures, first_failed_at, parked_at)
select :cursor, :position, :sequence, cast(:key as text), cast(:alone as boolean),
  cast(:alone as boolean) or not exists (select 1 from onceward_parked as o
    where o.cursor_name = :cursor and o.key = cast(:key as text) and not o.alone),
  :raw, cast(:attempt as int), {{ due_in(:delay) }},
  case when cast(:error as text) is not null then {{ with_failure(:earlier) }} else :earlier end,
  coalesce({{ time(:first_failed_at) }}, case when cast(:error as text) is not null then moment end), moment
from (select {{ now }} as moment) as t
where true
on conflict (cursor_name, position) do nothing
returning id

-- name: parked_keys
-- Count parked messages by cursor and key; those that block only themselves by cursor.
select cursor_name, case when alone then null else key end as line, count(*),
  {{ text(min(coalesce(first_failed_at, parked_at))) }} as since, max(attempt)
from onceward_parked
group by cursor_name, line
order by since, cursor_name, line limit :limit

-- name: parked_lines
-- Count parked messages of these keys, each given with its cursor.
select listed.item ->> 0 as cursor_name, listed.item ->> 1 as key, count(parked.id)
from {{ items(:lines) }}
left join onceward_parked as parked
  on parked.cursor_name = listed.item ->> 0 and parked.key = listed.item ->> 1 and not parked.alone
group by 1, 2

-- name: parked_list
-- List the parked messages of a cursor, in the order of parking.
select position, sequence, key, alone from onceward_parked where cursor_name = :cursor order by sequence

-- name: parked_next
-- Return the seconds until the next head of a cursor is due; null when nothing is parked.
-- sqlite:
{{ parked_boots }}
select min(case
  when boot is null then
    (select 0.0 from onceward_parked where cursor_name = :cursor and is_head and due_boot is null limit 1)
  when boot = :boot then
    (select min(due_seconds) from onceward_parked
      where cursor_name = :cursor and is_head and due_boot = boots.boot) - :now
  else
    (julianday((select min(due_at) from onceward_parked
      where cursor_name = :cursor and is_head and due_boot = boots.boot)) - julianday({{ now }})) * 86400.0
end)
from boots
-- postgres:
select case
  when (select 1 from onceward_parked where cursor_name = :cursor and is_head and due_at is null limit 1) is not null
    then 0.0::float8
  else extract(epoch from
    (select min(due_at) from onceward_parked where cursor_name = :cursor and is_head) - {{ now }})::float8
end

-- name: parked_number
-- Return the number of parked messages of a cursor; no row for none.
select number from onceward_counts where kind = 'parked' and name = :cursor

-- name: parked_promote
-- Make the earliest message of a key its head; one that was never tried is due at once.
update onceward_parked set is_head = true
where cursor_name = :cursor and key = :key and not alone and not is_head
  and sequence = (select min(o.sequence) from onceward_parked as o
    where o.cursor_name = :cursor and o.key = :key and not o.alone)

-- name: parked_redrive
-- Park a requeued message at its old place among those of its key, due at once; no row when it is parked already.
insert into onceward_parked (cursor_name, position, sequence, key, alone, is_head, raw, attempt, failures, parked_at)
values (:cursor, :position, :sequence, :key, :alone, :alone, :raw, 0, '[]', {{ now }})
on conflict (cursor_name, position) do nothing
returning id

-- name: parked_remove
-- Remove a parked message that is unchanged since it was read; no row otherwise.
delete from onceward_parked where id = :id and attempt = :attempt and is_head
returning sequence

-- name: parked_renumber
-- Change the place of a parked message among those of its key.
update onceward_parked set sequence = :sequence where cursor_name = :cursor and position = :position

-- name: parked_reschedule
-- Record one more failed attempt of a parked message that is unchanged since it was read, and its next due time.
update onceward_parked set
  attempt = :attempt,
  {{ set_due(:delay) }},
  first_failed_at = coalesce(first_failed_at, moment),
  failures = {{ with_failure(failures) }}
from (select {{ now }} as moment) as t
where id = :id and attempt = :attempt - 1 and is_head
returning id

-- name: parked_waiting
-- Count a cursor's parked messages and their keys, and return the seconds until the next head is due.
select count(*), count(distinct case when alone then null else key end),
  min(case when not is_head then null when due_at is null then 0.0 else {{ remaining(due) }} end)
from onceward_parked where cursor_name = :cursor

-- name: retry_sequence_next
-- Lock a cursor's retries until the transaction ends, and return the next sequence number.
-- sqlite:
insert into onceward_retry_sequences (cursor_name, last_sequence) values (:cursor, 1)
on conflict (cursor_name) do update set last_sequence = last_sequence + 1
returning last_sequence
-- postgres:
select onceward_retry_sequence_next(:cursor::text, :is_worker::boolean)
