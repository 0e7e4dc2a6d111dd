-- Return what else is to be known of the named cursors: who paused each, what holds it, what waits beside it.
-- Before that the last entry of its history; at the end, since when its lease is over. Counts up to :most.
select cursor.cursor_name,
  (select max(id) from cursor_history as entry where entry.cursor_name = cursor.cursor_name),
  pause.actor, pause.reason,
  attempt.position, attempt.attempt, onceward_time_text(attempt.due_at), onceward_time_text(attempt.first_failed_at),
  left(attempt.failures -> -1 ->> 'error', 2000),
  (select count(*) from (
    select 1 from onceward_parked where cursor_name = cursor.cursor_name limit :most) as parked),
  (select count(*) from (
    select 1 from onceward_dead where state = 'dead' and cursor_name = cursor.cursor_name limit :most) as dead),
  extract(epoch from onceward_now() - cursor.lease_expires_at)::float8,
  extract(epoch from attempt.due_at - onceward_now())::float8
from jsonb_array_elements_text(:names::jsonb) as named (name)
join cursor_positions as cursor on cursor.cursor_name = named.name
left join lateral (
  select actor, reason from cursor_history as entry
  where cursor.paused and entry.cursor_name = cursor.cursor_name and kind = 'pause'
  order by id desc limit 1
) as pause on true
left join lateral (
  select * from onceward_attempts as failed
  where failed.cursor_name = cursor.cursor_name and failed.position is distinct from cursor.last_position
  order by sequence limit 1
) as attempt on true
