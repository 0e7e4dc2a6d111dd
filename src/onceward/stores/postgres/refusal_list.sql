-- List what late holders of a cursor tried and were refused, newest first.
select cursor_name, onceward_time_text(happened_at), worker, epoch, current_epoch, current_owner, what
from onceward_refusals where cursor_name = :name
order by id desc limit :limit
