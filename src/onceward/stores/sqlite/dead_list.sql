-- List dead letters that fit, newest first.
select id, cursor_name, position, key, state, error_type, error_message, attempt_count, first_failed_at, dead_at,
  redrive_count, changed_at, changed_by, reason, length(raw)
from onceward_dead
where (:cursor is null or cursor_name = :cursor) and (:key is null or key = :key)
  and (:state is null or state = :state) and (:since is null or dead_at >= :since)
order by id desc limit :limit
