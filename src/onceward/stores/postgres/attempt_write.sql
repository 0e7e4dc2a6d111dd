-- Note one more failed attempt of a position, and when the next one is due.
insert into onceward_attempts as a (cursor_name, position, sequence, attempt,
  due_at, failures, first_failed_at)
select :cursor, :position, :sequence, :attempt,
  t.moment + :delay * interval '1 second',
  jsonb_build_array(jsonb_build_object(
    'attempt', :attempt::int, 'at', onceward_time_text(t.moment), 'error', :error::text)), t.moment
from (select onceward_now() as moment) as t
on conflict (cursor_name, position) do update set
  attempt = excluded.attempt,
  due_at = excluded.due_at,
  failures = (case when jsonb_array_length(a.failures) >= :kept then a.failures - 0 else a.failures end)
    || excluded.failures
