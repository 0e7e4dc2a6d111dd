-- Return the position, the last measure and the parked messages of those named cursors that were not measured lately.
-- The first heads are looked at: the oldest message is one of them, unless it was put back.
select cursor.cursor_name, cursor.last_position, cursor.processed_count,
  case when measure.measured_at is not null
    then greatest(0, extract(epoch from onceward_now() - measure.measured_at))::float8 end,
  measure.position, measure.lag_messages, measure.lag_seconds, measure.processed_count, measure.rate_per_minute,
  coalesce((select number from onceward_counts
    where kind = 'parked' and name = cursor.cursor_name), 0),
  (select greatest(0, extract(epoch from onceward_now() - min(parked_at)))::float8 from (
    select parked_at from onceward_parked as p
    where p.cursor_name = cursor.cursor_name and is_head order by sequence limit 10) as first
    having min(parked_at) is not null)
from json_array_elements_text(:names::json) as named (name)
join cursor_positions as cursor on cursor.cursor_name = named.name
left join onceward_measures as measure on measure.cursor_name = cursor.cursor_name
where measure.measured_at is null
  or measure.measured_at <= onceward_now() - make_interval(secs => :seconds::float8)
order by cursor.cursor_name
