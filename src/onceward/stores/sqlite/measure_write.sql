-- Keep what was measured of many cursors at once; the latest counts. A parked message may be the oldest.
insert into onceward_measures (
  cursor_name, position, lag_messages, lag_seconds, oldest_at, held_back_by, processed_count,
  rate_per_minute, measured_at, measured_seconds, measured_boot
)
select cursor, position, messages,
  max(coalesce(seconds, parked_seconds), coalesce(parked_seconds, seconds)),
  iif(parked_seconds > seconds, null, oldest_at), held_back_by, processed, rate, :wall, :now, :boot
from (
  select value ->> 'cursor' as cursor, value ->> 'position' as position, value ->> 'messages' as messages,
    coalesce(max(0.0, (julianday(:wall) - julianday(value ->> 'oldest_at')) * 86400.0), value ->> 'seconds')
      as seconds,
    value ->> 'parked_seconds' as parked_seconds, value ->> 'oldest_at' as oldest_at, value ->> 'held_back_by' as held_back_by,
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
