-- Return the last few measures of each of the named cursors, oldest first, and the seconds that passed since each.
select sample.cursor_name, greatest(0, extract(epoch from onceward_now() - sample.taken_at))::float8,
  sample.processed_count, sample.lag_messages
from jsonb_array_elements_text(:names::jsonb) as named (name)
cross join lateral (
  select * from onceward_samples
  where cursor_name = named.name
  order by taken_at desc limit :count
) as sample
order by sample.cursor_name, sample.taken_at
