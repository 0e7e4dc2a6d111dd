-- Keep how the named cursors were just measured, of each at most one in so many seconds; no long positions.
insert into onceward_samples (cursor_name, taken_at, position, processed_count, lag_messages, lag_seconds)
select cursor_name, measured_at, case when length(position) <= :characters then position end, processed_count, lag_messages, lag_seconds
from onceward_measures as measure
where cursor_name in (select jsonb_array_elements_text(:names::jsonb))
  and not exists (
    select 1 from onceward_samples as sample
    where sample.cursor_name = measure.cursor_name
      and sample.taken_at > measure.measured_at - make_interval(secs => :seconds::float8)
      and sample.taken_at <= measure.measured_at -- Not one of a clock that was ahead.
  )
on conflict do nothing
