-- Return where those of the named cursors stand that nobody measured lately, and what was measured last.
select cursor_name, last_position, now_count, age_seconds, position, lag_messages, lag_seconds,
  processed_count, rate_per_minute
from (
  select cursor.cursor_name, cursor.last_position, cursor.processed_count as now_count, measure.position,
    measure.lag_messages, measure.lag_seconds, measure.processed_count, measure.rate_per_minute,
    max(0.0, case when measure.measured_boot = :boot then :now - measure.measured_seconds
      else (julianday(:wall) - julianday(measure.measured_at)) * 86400.0 end) as age_seconds
  from json_each(:names) as named
  join cursor_positions as cursor on cursor.cursor_name = named.value
  left join onceward_measures as measure on measure.cursor_name = cursor.cursor_name
)
where age_seconds is null or age_seconds >= :seconds
order by cursor_name
