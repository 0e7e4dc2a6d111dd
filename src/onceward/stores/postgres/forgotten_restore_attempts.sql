-- Remember attempts again as they were.
insert into onceward_attempts (cursor_name, position, sequence, attempt,
  due_at, failures, first_failed_at)
select cursor_name, position, sequence, attempt,
  due_at, failures, first_failed_at
from onceward_forgotten where raw is null and id in (select value::bigint from jsonb_array_elements_text(:ids::jsonb))
