-- Keep parked messages for the undoing of a seek.
insert into onceward_forgotten (history_id, cursor_name, position, sequence, key, alone, raw, attempt,
  due_seconds, due_boot, due_at, failures, first_failed_at, parked_at)
select :history, cursor_name, position, sequence, key, alone, raw, attempt,
  due_seconds, due_boot, due_at, failures, first_failed_at, parked_at
from onceward_parked where cursor_name = :cursor
  and position in (select value from json_each(:positions))
