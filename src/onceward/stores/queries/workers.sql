-- Workers: processes, lag measurements and their samples, and user tables that are read as sources.

-- name: measure_due
-- Return position, last measurement and parked messages of the named cursors not measured for :seconds seconds.
-- Reads the first ten heads: the oldest message is one of them, unless it was requeued.
-- sqlite:
select cursor_name, last_position, now_count, age_seconds, position, lag_messages, lag_seconds,
  processed_count, rate_per_minute,
  coalesce((select number from onceward_counts
    where kind = 'parked' and name = due.cursor_name), 0),
  (select max(0.0, (julianday({{ now }}) - julianday(min(parked_at))) * 86400.0) from (
    select parked_at from onceward_parked as p
    where p.cursor_name = due.cursor_name and is_head order by sequence limit 10))
from (
  select cursor.cursor_name, cursor.last_position, cursor.processed_count as now_count, measure.position,
    measure.lag_messages, measure.lag_seconds, measure.processed_count, measure.rate_per_minute,
    {{ elapsed(measure.measured) }} as age_seconds
  from json_each(:names) as named
  join cursor_positions as cursor on cursor.cursor_name = named.value
  left join onceward_measures as measure on measure.cursor_name = cursor.cursor_name
) as due
where age_seconds is null or age_seconds >= :seconds
order by cursor_name
-- postgres:
select cursor.cursor_name, cursor.last_position, cursor.processed_count,
  case when measure.measured_at is not null
    then {{ elapsed(measure.measured) }} end,
  measure.position, measure.lag_messages, measure.lag_seconds, measure.processed_count, measure.rate_per_minute,
  coalesce((select number from onceward_counts
    where kind = 'parked' and name = cursor.cursor_name), 0),
  (select greatest(0, extract(epoch from {{ now }} - min(parked_at)))::float8 from (
    select parked_at from onceward_parked as p
    where p.cursor_name = cursor.cursor_name and is_head order by sequence limit 10) as first
    having min(parked_at) is not null)
from json_array_elements_text(:names::json) as named (name)
join cursor_positions as cursor on cursor.cursor_name = named.name
left join onceward_measures as measure on measure.cursor_name = cursor.cursor_name
where measure.measured_at is null
  or measure.measured_at <= {{ ago(:seconds) }}
order by cursor.cursor_name

-- name: measure_list
-- Return the measurements of all cursors: age, messages processed since, and whether an operator moved the cursor.
select measure.cursor_name, lag_messages, lag_seconds, {{ text(oldest_at) }}, held_back_by,
  rate_per_minute, {{ text(measured_at) }},
  {{ elapsed(measured) }},
  cursor.processed_count - measure.processed_count,
  cursor.last_position is distinct from measure.position and cursor.processed_count = measure.processed_count
from onceward_measures as measure
join cursor_positions as cursor on cursor.cursor_name = measure.cursor_name
order by measure.cursor_name limit :limit

-- name: measure_named
-- Return the measurements of the named cursors: age, messages processed since, and whether an operator moved it.
select measure.cursor_name, lag_messages, lag_seconds, {{ text(oldest_at) }}, held_back_by,
  rate_per_minute, {{ text(measured_at) }},
  {{ elapsed(measured) }},
  cursor.processed_count - measure.processed_count,
  cursor.last_position is distinct from measure.position and cursor.processed_count = measure.processed_count
from {{ named(:names) }}
join onceward_measures as measure on measure.cursor_name = named.name
join cursor_positions as cursor on cursor.cursor_name = measure.cursor_name
order by measure.cursor_name

-- name: measure_write
-- Store the measurements of several cursors; the latest wins. A parked message may be the oldest.
-- sqlite:
insert into onceward_measures (
  cursor_name, position, lag_messages, lag_seconds, oldest_at, held_back_by, processed_count,
  rate_per_minute, measured_at, measured_seconds, measured_boot
)
select cursor, position, messages,
  max(coalesce(seconds, parked_seconds), coalesce(parked_seconds, seconds)),
  iif(parked_seconds > seconds, null, oldest_at), held_back_by, processed, rate, {{ now }}, :now, :boot
from (
  select value ->> 'cursor' as cursor, value ->> 'position' as position, value ->> 'messages' as messages,
    coalesce(max(0.0, (julianday({{ now }}) - julianday(value ->> 'oldest_at')) * 86400.0), value ->> 'seconds')
      as seconds,
    value ->> 'parked_seconds' as parked_seconds, value ->> 'oldest_at' as oldest_at,
    value ->> 'held_back_by' as held_back_by,
    value ->> 'processed' as processed, value ->> 'rate' as rate
  from json_each(:rows)
)
where true
on conflict (cursor_name) do update set
  position = excluded.position,
  lag_messages = excluded.lag_messages,
  lag_seconds = excluded.lag_seconds,
  oldest_at = excluded.oldest_at,
  held_back_by = excluded.held_back_by,
  processed_count = excluded.processed_count,
  rate_per_minute = excluded.rate_per_minute,
  measured_at = excluded.measured_at,
  measured_seconds = excluded.measured_seconds,
  measured_boot = excluded.measured_boot
-- postgres:
insert into onceward_measures (
  cursor_name, position, lag_messages, lag_seconds, oldest_at, held_back_by, processed_count,
  rate_per_minute, measured_at
)
select cursor, position, messages, greatest(lag, parked_seconds),
  case when parked_seconds > lag then null else oldest_at end, held_back_by, processed, rate, moment
from (select onceward_now() as moment) as now
cross join jsonb_to_recordset(:rows::jsonb) as measure (
  cursor text, position text, messages bigint, seconds float8, parked_seconds float8, oldest_at timestamptz,
  held_back_by text, processed bigint, rate float8
)
cross join lateral (
  select case when oldest_at is null then seconds
    else greatest(0, extract(epoch from moment - oldest_at)) end as lag
) as waited
on conflict (cursor_name) do update set
  position = excluded.position,
  lag_messages = excluded.lag_messages,
  lag_seconds = excluded.lag_seconds,
  oldest_at = excluded.oldest_at,
  held_back_by = excluded.held_back_by,
  processed_count = excluded.processed_count,
  rate_per_minute = excluded.rate_per_minute,
  measured_at = excluded.measured_at

-- name: sample_add
-- Store the last measurements of the named cursors as samples, each at most once in :seconds seconds.
insert into onceward_samples (cursor_name, taken_at, position, processed_count, lag_messages, lag_seconds)
select cursor_name, measured_at, case when length(position) <= :characters then position end,
  processed_count, lag_messages, lag_seconds
from onceward_measures as measure
where cursor_name {{ in_texts(:names) }}
  and not exists (
    select 1 from onceward_samples as sample
    where sample.cursor_name = measure.cursor_name
      and sample.taken_at > {{ seconds_before(measured_at) }}
      and sample.taken_at <= measure.measured_at -- Excludes samples of a clock that was ahead.
  )
on conflict do nothing

-- name: sample_list
-- List a cursor's samples of the last :seconds seconds, newest first.
select {{ text(taken_at) }}, position, processed_count, lag_messages, lag_seconds
from onceward_samples
where cursor_name = :name and taken_at > {{ ago(:seconds) }}
order by taken_at desc limit :limit

-- name: sample_prune
-- Remove old samples, and those of a clock that was far ahead, in batches.
delete from onceward_samples where (cursor_name, taken_at) in (
  -- A select around both: for a compound select SQLite scans the entire table.
  select cursor_name, taken_at from (
    select * from (
      select cursor_name, taken_at from onceward_samples
      where taken_at < {{ ago(:seconds) }}
      order by taken_at limit :limit {{ lock(update skip locked) }}
    ) as old
    union all
    select * from (
      select cursor_name, taken_at from onceward_samples
      where taken_at > {{ after(:ahead) }}
      order by taken_at limit :limit {{ lock(update skip locked) }}
    ) as ahead
  ) as found
)
returning 1

-- name: sample_recent
-- Return the last :count samples of each named cursor, oldest first, and the age of each in seconds.
-- sqlite:
select sample.cursor_name, max(0.0, {{ since(sample.taken_at) }}),
  sample.processed_count, sample.lag_messages
from json_each(:names) as named
join onceward_samples as sample on sample.cursor_name = named.value
where sample.taken_at >= coalesce((
  select earlier.taken_at from onceward_samples as earlier
  where earlier.cursor_name = named.value
  order by earlier.taken_at desc limit 1 offset :count - 1
), '')
order by sample.cursor_name, sample.taken_at
-- postgres:
select sample.cursor_name, {{ elapsed(sample.taken) }},
  sample.processed_count, sample.lag_messages
from jsonb_array_elements_text(:names::jsonb) as named (name)
cross join lateral (
  select * from onceward_samples
  where cursor_name = named.name
  order by taken_at desc limit :count
) as sample
order by sample.cursor_name, sample.taken_at

-- name: table_collations
-- Return the collations of a column of a user's table, and whether each compares byte by byte.
-- sqlite:
select distinct upper(x.coll), upper(x.coll) = 'BINARY'
from pragma_index_list(:table) as i, pragma_index_xinfo(i.name) as x
where x.key and x.name = :column
-- postgres:
select l.collname::text, l.collisdeterministic
from pg_attribute a
join pg_collation l on l.oid = a.attcollation
where a.attrelid = to_regclass(:table) and a.attname = :column

-- name: table_columns
-- Return the columns of a user's table in order, and whether each may be null.
-- sqlite:
-- Name, type twice, no category, not null, and the table's declaration for key columns.
select name, type, type, '', "notnull",
  case when pk = 1 then
    (select sql from sqlite_master where type = 'table' and name = :table collate nocase)
  end
from pragma_table_xinfo(:table)
where hidden <> 1
order by cid
-- postgres:
-- Name, type, its base type, category, not null, default.
select a.attname::text, format_type(a.atttypid, a.atttypmod), base.typname::text,
  base.typcategory::text, a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
join pg_type t on t.oid = a.atttypid
join pg_type base on base.oid = case when t.typtype = 'd' then t.typbasetype else t.oid end
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where c.oid = to_regclass(:table) and c.relkind in ('r', 'p')
order by a.attnum

-- name: table_holder (postgres)
-- Return the oldest open transaction of this server that may still add rows: its client, state and age in seconds.
select who, state, seconds from (
  select 'pid ' || pid || ' in ' || coalesce(datname, '?') as who, coalesce(state, 'unknown') as state,
    {{ since(xact_start) }} as seconds, age(backend_xid) as age
  from pg_stat_activity where backend_xid is not null
  union all
  select 'prepared transaction ' || gid || ' in ' || database, 'prepared',
    {{ since(prepared) }}, age(transaction)
  from pg_prepared_xacts
) as found
order by age desc limit 1

-- name: table_indexes
-- Return the columns of the indexes of a user's table that order all its rows: index, unique, column.
-- sqlite:
select i.name, i."unique", x.name
from pragma_index_list(:table) as i, pragma_index_xinfo(i.name) as x
where not i.partial and x.key
  and not exists (select 1 from pragma_index_xinfo(i.name) as y where y.key and y."desc")
order by i.name, x.seqno
-- postgres:
select i.relname::text, x.indisunique, a.attname::text
from pg_index x
join pg_class i on i.oid = x.indexrelid
join pg_am m on m.oid = i.relam and m.amname = 'btree'
cross join lateral unnest(x.indkey::smallint[]) with ordinality as k (number, place)
left join pg_attribute a on a.attrelid = x.indrelid and a.attnum = k.number
where x.indrelid = to_regclass(:table) and x.indisvalid and x.indpred is null
  and 0 = all (x.indoption::smallint[]) and k.place <= x.indnkeyatts
order by i.relname, k.place

-- name: worker_beat
-- Record that a worker is alive; insert it when it is new or was pruned.
insert into onceward_workers (worker, host, pid, started_at, {{ event(seen) }}, consumers, version)
values (:worker, :host, :pid, {{ now }}, {{ event_now }}, :consumers, :version)
on conflict (worker) do update set {{ set_event(seen) }}

-- name: worker_list
-- List worker processes, last seen first, and the seconds since then.
select worker, host, pid, {{ text(started_at) }}, {{ text(seen_at) }},
  {{ elapsed(seen) }},
  {{ text(stopped_at) }}, consumers, version
from onceward_workers
order by seen_at desc limit :limit

-- name: worker_prune
-- Delete workers without a recent heartbeat, in batches.
delete from onceward_workers where worker in (
  select worker from onceward_workers
  where seen_at < {{ ago(:seconds) }}
  order by seen_at limit :limit {{ lock(update skip locked) }}
)
returning 1

-- name: worker_stop
-- Record that a worker stopped.
update onceward_workers set stopped_at = {{ now }}, {{ set_event(seen) }} where worker = :worker
