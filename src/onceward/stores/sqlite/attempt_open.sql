-- Return the messages that failed and hold their cursors, and the last thing each said.
select attempts.cursor_name, attempts.position, attempts.attempt, attempts.first_failed_at,
  attempts.failures -> '$[#-1]' ->> 'error'
from onceward_attempts as attempts
join cursor_positions as cursor on cursor.cursor_name = attempts.cursor_name
where cursor.last_position is not attempts.position
order by attempts.first_failed_at, attempts.cursor_name limit :limit
