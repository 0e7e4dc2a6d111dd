-- Return these letters, in the order of cursors; nobody else changes them before this transaction ends.
select id, cursor_name, position, key, state, error_type, error_message, attempt_count, first_failed_at, dead_at,
  redrive_count, changed_at, changed_by, reason, length(raw), alone
from onceward_dead
where id = any (array(select jsonb_array_elements_text(:ids::jsonb)::bigint))
order by cursor_name, id
for update
