-- Read what is known about a failing position; waits until wait_seconds is below zero.
select sequence, attempt,
  extract(epoch from due_at - onceward_now())::float8 as wait_seconds,
  due_at, failures::text, first_failed_at
from onceward_attempts
where cursor_name = :cursor and position = :position
