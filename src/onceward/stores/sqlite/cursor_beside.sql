-- Return what else is to be known of the named cursors: who paused each, what holds it, what waits beside it.
-- Before that the last entry of its history; at the end, since when its lease is over. Counts up to :most.
select cursor.cursor_name,
  (select max(id) from cursor_history as entry where entry.cursor_name = cursor.cursor_name),
  pause.actor, pause.reason,
  attempt.position, attempt.attempt, attempt.due_at, attempt.first_failed_at,
  substr(attempt.failures -> '$[#-1]' ->> 'error', 1, 2000),
  (select count(*) from (select 1 from onceward_parked where cursor_name = cursor.cursor_name limit :most)),
  (select count(*) from (
    select 1 from onceward_dead where state = 'dead' and cursor_name = cursor.cursor_name limit :most)),
  (julianday(:wall) - julianday(cursor.lease_expires_at)) * 86400.0,
  case when attempt.due_boot = :boot then attempt.due_seconds - :now
    else (julianday(attempt.due_at) - julianday(:wall)) * 86400.0 end
from json_each(:names) as named
join cursor_positions as cursor on cursor.cursor_name = named.value
left join cursor_history as pause on cursor.paused and pause.id = (
  select max(id) from cursor_history as entry where entry.cursor_name = cursor.cursor_name and kind = 'pause')
left join onceward_attempts as attempt on attempt.rowid = (
  select rowid from onceward_attempts as failed
  where failed.cursor_name = cursor.cursor_name and failed.position is not cursor.last_position
  order by sequence limit 1)
