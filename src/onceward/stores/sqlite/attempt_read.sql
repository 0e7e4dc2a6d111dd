-- Read what is known about a failing position; waits until wait_seconds is below zero.
select sequence, attempt,
  case when due_boot = :boot then due_seconds - :now
       else (julianday(due_at) - julianday(:wall)) * 86400.0 end as wait_seconds,
  due_at, failures, first_failed_at
from onceward_attempts
where cursor_name = :cursor and position = :position
