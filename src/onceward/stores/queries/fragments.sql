-- Fragments: rules that several queries share, and the differences between the two engines.
-- A query uses one as {{ name }} or {{ name(argument, …) }}; {argument} is replaced by the text that is passed.

-- Time. On SQLite the store binds :wall (text, for people), :now (seconds since the machine started) and :boot (the id
-- of that boot); :now decides within one boot, :wall after another. On PostgreSQL onceward_now() decides; inside a
-- scalar subquery it runs once for a statement, not once for a row.

-- fragment: now
-- The time that is stored in a column.
-- sqlite:
:wall
-- postgres:
(select onceward_now())

-- fragment: ago(seconds)
-- The time this many seconds ago.
-- sqlite:
strftime('%Y-%m-%dT%H:%M:%fZ', :wall, -({seconds}) || ' seconds')
-- postgres:
(select onceward_now()) - make_interval(secs => ({seconds})::float8)

-- fragment: after(seconds)
-- The time in this many seconds; null for null.
-- sqlite:
strftime('%Y-%m-%dT%H:%M:%fZ', :wall, round({seconds}, 3) || ' seconds')
-- postgres:
(select onceward_now()) + make_interval(secs => ({seconds})::float8)

-- fragment: seconds_before(at)
-- The time :seconds seconds before another.
-- sqlite:
strftime('%Y-%m-%dT%H:%M:%fZ', {at}, -:seconds || ' seconds')
-- postgres:
{at} - make_interval(secs => :seconds::float8)

-- fragment: seconds_waited(since)
-- The seconds since a moment in Unix time, at least 0; null for null.
-- sqlite:
max(0.0, (julianday(:wall) - 2440587.5) * 86400.0 - {since})
-- postgres:
case when {since} is not null then greatest(0, extract(epoch from (select onceward_now())) - {since})::float8 end

-- fragment: since(at)
-- The seconds since a time, by the wall clock; below zero for one in the future.
-- sqlite:
(julianday(:wall) - julianday({at})) * 86400.0
-- postgres:
extract(epoch from (select onceward_now()) - {at})::float8

-- fragment: event(event)
-- The columns that record when an event happened.
-- sqlite:
{event}_at, {event}_seconds, {event}_boot
-- postgres:
{event}_at

-- fragment: event_now
-- The values of those columns for now.
-- sqlite:
:wall, :now, :boot
-- postgres:
(select onceward_now())

-- fragment: set_event(event)
-- Record that an event happens now.
-- sqlite:
{event}_at = :wall, {event}_seconds = :now, {event}_boot = :boot
-- postgres:
{event}_at = (select onceward_now())

-- fragment: elapsed(event)
-- The seconds since an event, at least 0.
-- sqlite:
max(0.0, case when {event}_boot = :boot then :now - {event}_seconds
    else (julianday(:wall) - julianday({event}_at)) * 86400.0 end)
-- postgres:
greatest(0, extract(epoch from (select onceward_now()) - {event}_at))::float8

-- fragment: remaining(event)
-- The seconds until an event; below zero when it is past.
-- sqlite:
case when {event}_boot = :boot then {event}_seconds - :now
    else (julianday({event}_at) - julianday(:wall)) * 86400.0 end
-- postgres:
extract(epoch from {event}_at - (select onceward_now()))::float8

-- fragment: wait(at)
-- The seconds until a time, by the wall clock; 0 when it is past or not set.
-- sqlite:
case when {at} is null then 0 else max(0, (julianday({at}) - julianday(:wall)) * 86400.0) end
-- postgres:
case when {at} is null then 0 else greatest(0, extract(epoch from {at} - (select onceward_now())))::float8 end

-- fragment: alive(end)
-- Whether a lease has not expired. A lease of an earlier boot has: its process is gone.
-- sqlite:
{end}_boot = :boot and :now < {end}_seconds
-- postgres:
(select onceward_now()) < {end}_at

-- fragment: text(time)
-- A time as text with milliseconds, as SQLite stores it.
-- sqlite:
{time}
-- postgres:
onceward_time_text({time})

-- fragment: exact_text(time)
-- A time as text that compares equal when it is passed back.
-- sqlite:
{time}
-- postgres:
onceward_text({time})

-- fragment: time(text)
-- A time from its text.
-- sqlite:
{text}
-- postgres:
{text}::timestamptz

-- Values.

-- fragment: json_text(value)
-- JSON as text.
-- sqlite:
{value}
-- postgres:
{value}::text

-- fragment: last_of(list)
-- The last element of a JSON list.
-- sqlite:
{list} -> '$[#-1]'
-- postgres:
{list} -> -1

-- fragment: float(value)
-- A parameter as a number with a fraction.
-- sqlite:
{value}
-- postgres:
{value}::float8

-- fragment: no_number
-- Null in a column of numbers.
-- sqlite:
null
-- postgres:
null::float8

-- fragment: greatest
-- The function that returns the greatest of several values.
-- sqlite:
max
-- postgres:
greatest

-- fragment: like
-- Match a pattern, ignoring case.
-- sqlite:
like
-- postgres:
ilike

-- fragment: in_ids(list)
-- Whether a number is in a JSON list; found by an index however long the list is.
-- sqlite:
in (select value from json_each({list}))
-- postgres:
= any (array(select jsonb_array_elements_text({list}::jsonb)::bigint))

-- fragment: in_texts(list)
-- Whether a text is in a JSON list.
-- sqlite:
in (select value from json_each({list}))
-- postgres:
in (select jsonb_array_elements_text({list}::jsonb))

-- fragment: in_few_ids(list)
-- The same for numbers, of which there are :count: PostgreSQL would plan for a hundred.
-- sqlite:
in (select value from json_each({list}))
-- postgres:
in (select json_array_elements_text({list}::json)::bigint limit :count)

-- fragment: in_few_texts(list)
-- The same for texts, of which there are :count.
-- sqlite:
in (select value from json_each({list}))
-- postgres:
in (select json_array_elements_text({list}::json) limit :count)

-- fragment: named(list)
-- The texts of a JSON list as rows, in the column `name`.
-- sqlite:
(select value as name from json_each({list})) as named
-- postgres:
jsonb_array_elements_text({list}::jsonb) as named (name)

-- fragment: items(list)
-- The elements of a JSON list as rows, in the column `item`.
-- sqlite:
(select value as item from json_each({list})) as listed
-- postgres:
jsonb_array_elements({list}::jsonb) as listed (item)

-- Locks and plans.

-- fragment: lock(mode)
-- Lock the rows until the transaction ends. On SQLite the write lock of the file does it.
-- sqlite:
-- postgres:
for {mode}

-- fragment: indexed_by(index)
-- Use this index: SQLite has no statistics that favour it.
-- sqlite:
indexed by {index}
-- postgres:

-- fragment: unindexed
-- Do not use an index for the order of this column.
-- sqlite:
+
-- postgres:

-- fragment: returning_rows
-- Let the caller count the changed rows. SQLite counts them itself, which costs a third of a statement less.
-- sqlite:
-- postgres:
returning 1

-- Cursors.

-- fragment: is_held
-- Whether the lease of a cursor has not expired; a null end is expired.
-- sqlite:
(lease_owner is not null and lease_expires_at is not null and lease_expires_boot is not null
      and lease_boot_id is :boot and lease_expires_boot >= :now)
-- postgres:
(lease_owner is not null and lease_expires_at is not null and lease_expires_at >= (select onceward_now()))

-- fragment: lease_remaining
-- The seconds until the lease of a cursor expires; below zero when it did.
-- sqlite:
case when lease_boot_id is :boot then lease_expires_boot - :now
    else min(0.0, (julianday(lease_expires_at) - julianday(:wall)) * 86400.0) end
-- postgres:
extract(epoch from lease_expires_at - (select onceward_now()))::float8

-- fragment: lease_renewed
-- Extend the lease by :seconds, unless the cursor is paused.
-- sqlite:
lease_expires_at = iif(paused, lease_expires_at, {{ after(:seconds) }}),
  lease_expires_boot = iif(paused, lease_expires_boot, :now + :seconds),
  lease_boot_id = iif(paused, lease_boot_id, :boot),
  updated_at = :wall
-- postgres:
lease_expires_at = case when paused then lease_expires_at else {{ after(:seconds) }} end,
  updated_at = (select onceward_now())

-- fragment: no_lease
-- End the lease of a cursor.
-- sqlite:
lease_expires_at = null,
  lease_expires_boot = null,
  lease_boot_id = null
-- postgres:
lease_expires_at = null

-- fragment: cursor_columns
-- All columns of a cursor, in the order of `CursorState`; is_held is a column.
cursor_name, last_position, {{ text(last_processed_at) }}, lease_owner, {{ text(lease_expires_at) }}, is_held,
  coalesce(error_count, 0), coalesce(paused, false), {{ json_text(coalesce(metadata, '{}')) }}, lease_epoch,
  steal_count, processed_count, rules_version, {{ text(created_at) }}, {{ text(updated_at) }}

-- fragment: cursor_state
-- The state of a cursor as operators see it; is_held is a column.
case when coalesce(paused, false) then 'paused' when is_held then 'held'
        when lease_owner is not null then 'expired' else 'free' end

-- Outcomes.

-- fragment: is_running(table)
-- Whether a claim is running: its lease has not expired. The argument is the table's alias with a dot, or empty.
({table}state = 'running' and {{ alive({table}until) }})

-- fragment: outcome_state
-- The current state of an outcome. A claim whose lease expired is abandoned, which means that it may run again, or
-- ambiguous: it may have completed. A result expires at until_at; a tombstone of its key stays for thirty days more.
case
    when {{ is_running() }} then 'running'
    when state = 'running' and on_crash = 'rerun' then 'abandoned'
    when state = 'running' then 'ambiguous'
    when state = 'ambiguous' or until_at is null then state
    when {{ forgotten(until) }} then 'gone'
    when state = 'free' then 'free'
    when {{ is_current }} then state
    else 'expired'
  end

-- fragment: forgotten(end)
-- Whether a result expired more than thirty days ago.
-- sqlite:
case when {end}_boot = :boot then :now >= {end}_seconds + 2592000
      else :wall >= strftime('%Y-%m-%dT%H:%M:%fZ', {end}_at, '+30 days') end
-- postgres:
(select onceward_now()) >= {end}_at + interval '30 days'

-- fragment: is_current
-- Whether a result has not expired; unlike a lease it survives a reboot.
-- sqlite:
case when until_boot = :boot then :now < until_seconds else :wall < until_at end
-- postgres:
(select onceward_now()) < until_at

-- fragment: ended(seconds)
-- Whether a result expired at least this many seconds ago. Compares until_at first, which has an index.
-- sqlite:
until_at <= {{ ago({seconds}) }} and (until_boot <> :boot or :now >= until_seconds + {seconds})
-- postgres:
until_at <= {{ ago({seconds}) }}

-- fragment: ends_after(seconds)
-- Set the lease or the result to expire in this many seconds; null for never.
-- sqlite:
until_at = {{ after({seconds}) }},
  until_boot = :boot,
  until_seconds = :now + {seconds}
-- postgres:
until_at = {{ after({seconds}) }}

-- fragment: grantable
-- Whether a claim on a known key is granted: it is free, abandoned, the owner's own, or forgotten.
-- Agrees with `outcome_state`, but does not use it: each claim would evaluate the time once more, for `is_current`.
(
    (outcome.fingerprint is null or outcome.fingerprint = excluded.fingerprint)
    and case
      when outcome.state = 'free' then true
      when outcome.state <> 'running' then false
      when {{ alive(outcome.until) }} then outcome.owner = excluded.owner
      else outcome.on_crash = 'rerun'
    end
  )
  or (
    outcome.state <> 'running' and outcome.state <> 'ambiguous'
    and {{ forgotten(outcome.until) }}
  )

-- fragment: granted
-- Grant a known key to the caller, with its fingerprint and the current time.
fingerprint = excluded.fingerprint,
  owner = excluded.owner,
  on_crash = excluded.on_crash,
  claimed_at = excluded.claimed_at,
  updated_at = excluded.updated_at,
  {{ end_of_excluded }}

-- fragment: end_of_excluded
-- Take the expiry of the lease or result from the inserted row.
-- sqlite:
until_at = excluded.until_at,
  until_boot = excluded.until_boot,
  until_seconds = excluded.until_seconds
-- postgres:
until_at = excluded.until_at

-- fragment: outcome_number
-- The sequence number of an outcome, in the order in which keys were first claimed.
-- sqlite:
rowid
-- postgres:
sequence

-- Retries.

-- fragment: due
-- The columns that say when a retry is due.
-- sqlite:
due_seconds, due_boot, due_at
-- postgres:
due_at

-- fragment: due_in(delay)
-- The values of those columns for a retry in this many seconds; null for at once.
-- sqlite:
:now + {delay}, iif({delay} is null, null, :boot), {{ after({delay}) }}
-- postgres:
{{ after({delay}) }}

-- fragment: set_due(delay)
-- Schedule a retry in this many seconds.
-- sqlite:
due_seconds = :now + {delay}, due_boot = :boot, due_at = {{ after({delay}) }}
-- postgres:
due_at = {{ after({delay}) }}

-- fragment: with_failure(failures)
-- At most :kept failures, in JSON: the last of a list, and this one (:attempt, :error, `moment`) at the end.
-- sqlite:
json_insert(
    case when json_array_length({failures}) >= :kept then json_remove({failures}, '$[0]') else {failures} end,
    '$[#]', json_object('attempt', :attempt, 'at', moment, 'error', :error))
-- postgres:
(case when jsonb_array_length({failures}::jsonb) >= :kept then {failures}::jsonb - 0 else {failures}::jsonb end)
    || jsonb_build_array(jsonb_build_object(
      'attempt', :attempt::int, 'at', {{ text(moment) }}, 'error', :error::text))

-- fragment: error_contains(part)
-- Whether the error of a dead letter contains a text, ignoring case.
-- sqlite:
instr(lower(error_type || ': ' || error_message), lower({part})) > 0
-- postgres:
position(lower({part}::text) in lower(error_type || ': ' || error_message)) > 0

-- fragment: letter_columns
-- A dead letter without its message, in the order of `DeadLetter`.
id, cursor_name, position, key, state, error_type, error_message, attempt_count, first_failed_at, dead_at,
  redrive_count, changed_at, changed_by, reason, source, group_name, first_seq, last_seq, delivery_id

-- fragment: parked_boots (sqlite)
-- The boots in which the heads of a cursor were scheduled, found one by one through the index; null at the end.
with recursive boots (boot) as (
  select min(due_boot) from onceward_parked where cursor_name = :cursor and is_head
  union all
  select (
    select min(due_boot) from onceward_parked
    where cursor_name = :cursor and is_head and due_boot > boots.boot)
  from boots where boots.boot is not null
)

-- Dispatch.

-- fragment: delivery_columns
-- A delivery, in the order of `Delivery`.
id, group_name, batch_number, state, attempt, first_seq, last_seq, agent, error, {{ text(started_at) }},
  {{ text(ended_at) }}

-- fragment: group_columns
-- A group, the seconds until its next attempt, and the time of that.
name, channel, command, trigger_kind, trigger_word, workdir, idle_seconds, hard_seconds, is_paused, called_seq,
  attempt_count, last_error, {{ wait(retry_at) }}, {{ text(retry_at) }}

-- fragment: message_columns
-- A message of a conversation, in the order of `Message`.
m.seq, m.changed_seq, m.channel, m.group_name, m.id, m.sender, m.body, m.sent_at, {{ text(m.received_at) }},
  {{ text(m.edited_at) }}

-- Memory.

-- fragment: entity_columns
-- An entity, in the order of `Entity`.
e.id, e.name, e.entity_type, e.source, e.run, {{ text(e.created_at) }}

-- fragment: change_rows(rows)
-- Rows of an id and the change that deletes it, from JSON.
-- sqlite:
(select value ->> '$.id' as id, value ->> '$.change' as change from json_each({rows}))
-- postgres:
(select * from json_to_recordset({rows}::json) as t (id bigint, change bigint) limit :count)

-- fragment: part_rows(rows)
-- Rows that name an entity, an observation or a relation, in order of `place`, from JSON.
-- sqlite:
(select value ->> '$.entity_id' as entity_id, value ->> '$.observation_id' as observation_id,
  value ->> '$.relation_id' as relation_id, key as place from json_each({rows}))
-- postgres:
(select * from rows from (
  json_to_recordset({rows}::json) as (entity_id bigint, observation_id bigint, relation_id bigint)
) with ordinality as t (entity_id, observation_id, relation_id, place) limit :count)

-- fragment: observation_rows(rows)
-- Rows that name an observation, from JSON.
-- sqlite:
(select value ->> '$.entity_id' as entity_id, value ->> '$.fingerprint' as fingerprint from json_each({rows}))
-- postgres:
(select * from json_to_recordset({rows}::json) as t (entity_id bigint, fingerprint text) limit :count)

-- fragment: relation_rows(rows)
-- Rows that name a relation, from JSON.
-- sqlite:
(select value ->> '$.from_id' as from_id, value ->> '$.to_id' as to_id, value ->> '$.type' as type
  from json_each({rows}))
-- postgres:
(select * from json_to_recordset({rows}::json) as t (from_id bigint, to_id bigint, type text) limit :count)
