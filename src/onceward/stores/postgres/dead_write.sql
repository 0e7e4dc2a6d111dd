-- Write a dead letter; a message that dies again opens its letter again.
insert into onceward_dead (cursor_name, position, sequence, key, alone, raw, state,
  error_type, error_message, error_trace, attempt_count, failures, first_failed_at, dead_at, changed_at)
select :cursor, :position, :sequence, :key::text, :alone::boolean, :raw, 'dead',
  :error_type, :error_message, :error_trace, :attempt::int,
  (case when jsonb_array_length(:failures::jsonb) >= :kept then :failures::jsonb - 0 else :failures::jsonb end)
    || jsonb_build_array(jsonb_build_object(
      'attempt', :attempt::int, 'at', onceward_time_text(t.moment), 'error', :error::text)),
  coalesce(:first_failed_at::timestamptz, t.moment), t.moment, t.moment
from (select onceward_now() as moment) as t
on conflict (cursor_name, position) do update set
  sequence = excluded.sequence, key = excluded.key, alone = excluded.alone, raw = excluded.raw,
  state = 'dead', error_type = excluded.error_type, error_message = excluded.error_message,
  error_trace = excluded.error_trace, attempt_count = excluded.attempt_count,
  failures = excluded.failures, dead_at = excluded.dead_at, changed_at = excluded.changed_at,
  changed_by = '', reason = ''
returning id
