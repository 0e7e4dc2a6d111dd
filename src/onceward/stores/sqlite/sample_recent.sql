-- Return the last few measures of each of the named cursors, oldest first, and the seconds that passed since each.
select sample.cursor_name, max(0.0, (julianday(:wall) - julianday(sample.taken_at)) * 86400.0),
  sample.processed_count, sample.lag_messages
from json_each(:names) as named
join onceward_samples as sample on sample.cursor_name = named.value
where sample.taken_at >= coalesce((
  select earlier.taken_at from onceward_samples as earlier
  where earlier.cursor_name = named.value
  order by earlier.taken_at desc limit 1 offset :count - 1
), '')
order by sample.cursor_name, sample.taken_at
