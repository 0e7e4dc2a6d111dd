-- List the grants of a cursor, newest first.
select cursor_name, epoch, worker, onceward_time_text(granted_at), onceward_time_text(ended_at), ending,
  onceward_time_text(expired_at)
from onceward_grants where cursor_name = :name
order by id desc limit :limit
