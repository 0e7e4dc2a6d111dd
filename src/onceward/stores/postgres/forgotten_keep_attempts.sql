-- Keep attempts for the undoing of a seek.
insert into onceward_forgotten (history_id, cursor_name, position, sequence, alone, attempt,
  due_at, failures, first_failed_at)
select :history, cursor_name, position, sequence, true, attempt,
  due_at, failures, first_failed_at
from onceward_attempts where cursor_name = :cursor
  and position in (select jsonb_array_elements_text(:positions::jsonb))
