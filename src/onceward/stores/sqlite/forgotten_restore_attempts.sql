-- Remember attempts again as they were.
insert into onceward_attempts (cursor_name, position, sequence, attempt,
  due_seconds, due_boot, due_at, failures, first_failed_at)
select cursor_name, position, sequence, attempt,
  due_seconds, due_boot, due_at, failures, first_failed_at
from onceward_forgotten where raw is null and id in (select value from json_each(:ids))
