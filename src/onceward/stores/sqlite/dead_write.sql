-- Write a dead letter; a message that dies again opens its letter again.
insert into onceward_dead (cursor_name, position, sequence, key, alone, raw, state,
  error_type, error_message, error_trace, attempt_count, failures, first_failed_at, dead_at, changed_at)
values (:cursor, :position, :sequence, :key, :alone, :raw, 'dead',
  :error_type, :error_message, :error_trace, :attempt,
  json_insert(
    case when json_array_length(:failures) >= :kept then json_remove(:failures, '$[0]') else :failures end,
    '$[#]', json_object('attempt', :attempt, 'at', :wall, 'error', :error)),
  coalesce(:first_failed_at, :wall), :wall, :wall)
on conflict (cursor_name, position) do update set
  sequence = excluded.sequence, key = excluded.key, alone = excluded.alone, raw = excluded.raw,
  state = 'dead', error_type = excluded.error_type, error_message = excluded.error_message,
  error_trace = excluded.error_trace, attempt_count = excluded.attempt_count,
  failures = excluded.failures, dead_at = excluded.dead_at, changed_at = excluded.changed_at,
  changed_by = '', reason = ''
returning id
