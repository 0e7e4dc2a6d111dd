-- List what was done to a cursor, newest first.
select id, cursor_name, kind, happened_at, actor, reason, from_position,
  to_position, epoch, undoes
from cursor_history where cursor_name = :name
order by id desc limit :limit
