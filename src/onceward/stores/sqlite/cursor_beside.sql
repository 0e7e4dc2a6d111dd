-- Return what else is to be known of the named cursors: the last entry of the history, who paused it and why, the
-- message that fails and holds it, how much is parked and dead up to a number, and since when its lease is over.
select cursor.cursor_name,
  (select max(id) from cursor_history as entry where entry.cursor_name = cursor.cursor_name),
  pause.actor, pause.reason,
  attempt.position, attempt.attempt, attempt.due_at, attempt.first_failed_at,
  substr(attempt.failures -> '$[#-1]' ->> 'error', 1, 2000),
  (select count(*) from (select 1 from onceward_parked where cursor_name = cursor.cursor_name limit :most)),
  (select count(*) from (
    select 1 from onceward_dead where state = 'dead' and cursor_name = cursor.cursor_name limit :most)),
  (julianday(:wall) - julianday(cursor.lease_expires_at)) * 86400.0
from json_each(:names) as named
join cursor_positions as cursor on cursor.cursor_name = named.value
left join cursor_history as pause on cursor.paused and pause.id = (
  select max(id) from cursor_history as entry where entry.cursor_name = cursor.cursor_name and kind = 'pause')
left join onceward_attempts as attempt on attempt.rowid = (
  select rowid from onceward_attempts as failed
  where failed.cursor_name = cursor.cursor_name and failed.position is not cursor.last_position
  order by sequence limit 1)
