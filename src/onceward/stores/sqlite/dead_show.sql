-- Read one dead letter with all that was kept.
select id, cursor_name, position, key, state, error_type, error_message, attempt_count, first_failed_at, dead_at,
  redrive_count, changed_at, changed_by, reason, length(raw), raw, error_trace, failures
from onceward_dead where id = :id
