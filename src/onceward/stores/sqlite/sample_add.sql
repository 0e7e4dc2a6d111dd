-- Keep how the named cursors were just measured, of each at most one in so many seconds; no long positions.
insert into onceward_samples (cursor_name, taken_at, position, processed_count, lag_messages, lag_seconds)
select cursor_name, measured_at, iif(length(position) <= :characters, position, null), processed_count, lag_messages, lag_seconds
from onceward_measures as measure
where cursor_name in (select value from json_each(:names))
  and not exists (
    select 1 from onceward_samples as sample
    where sample.cursor_name = measure.cursor_name
      and sample.taken_at > strftime('%Y-%m-%dT%H:%M:%fZ', measured_at, -:seconds || ' seconds')
      and sample.taken_at <= measure.measured_at -- Not one of a clock that was ahead.
  )
