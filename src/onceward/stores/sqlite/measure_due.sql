-- Return the position, the last measure and the parked messages of those named cursors that were not measured lately.
-- The first heads are looked at: the oldest message is one of them, unless it was put back.
select cursor_name, last_position, now_count, age_seconds, position, lag_messages, lag_seconds,
  processed_count, rate_per_minute,
  coalesce((select number from onceward_counts
    where kind = 'parked' and name = due.cursor_name), 0),
  (select max(0.0, (julianday(:wall) - julianday(min(parked_at))) * 86400.0) from (
    select parked_at from onceward_parked as p
    where p.cursor_name = due.cursor_name and is_head order by sequence limit 10))
from (
  select cursor.cursor_name, cursor.last_position, cursor.processed_count as now_count, measure.position,
    measure.lag_messages, measure.lag_seconds, measure.processed_count, measure.rate_per_minute,
    max(0.0, case when measure.measured_boot = :boot then :now - measure.measured_seconds
      else (julianday(:wall) - julianday(measure.measured_at)) * 86400.0 end) as age_seconds
  from json_each(:names) as named
  join cursor_positions as cursor on cursor.cursor_name = named.value
  left join onceward_measures as measure on measure.cursor_name = cursor.cursor_name
) as due
where age_seconds is null or age_seconds >= :seconds
order by cursor_name
