-- Keep attempts for the undoing of a seek.
insert into onceward_forgotten (history_id, cursor_name, position, sequence, alone, attempt,
  due_seconds, due_boot, due_at, failures, first_failed_at)
select :history, cursor_name, position, sequence, 1, attempt,
  due_seconds, due_boot, due_at, failures, first_failed_at
from onceward_attempts where cursor_name = :cursor
  and position in (select value from json_each(:positions))
