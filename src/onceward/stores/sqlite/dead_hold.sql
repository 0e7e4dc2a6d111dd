-- Return these letters, in any order; nobody else changes them before this transaction ends.
update onceward_dead set state = state
where id in (select value from json_each(:ids))
returning id, cursor_name, position, key, state, error_type, error_message, attempt_count, first_failed_at, dead_at,
  redrive_count, changed_at, changed_by, reason, length(raw), alone
