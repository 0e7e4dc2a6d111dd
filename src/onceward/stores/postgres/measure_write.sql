-- Keep what was measured of many cursors at once; the latest counts. A parked message may be the oldest.
insert into onceward_measures (
  cursor_name, position, lag_messages, lag_seconds, oldest_at, held_back_by, processed_count,
  rate_per_minute, measured_at
)
select cursor, position, messages, greatest(lag, parked_seconds),
  case when parked_seconds > lag then null else oldest_at end, held_back_by, processed, rate, moment
from (select onceward_now() as moment) as now
cross join jsonb_to_recordset(:rows::jsonb) as measure (
  cursor text, position text, messages bigint, seconds float8, parked_seconds float8, oldest_at timestamptz, held_back_by text,
  processed bigint, rate float8
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
