-- List the grants of a cursor, newest first.
select cursor_name, epoch, worker, granted_at, ended_at, ending, expired_at
from onceward_grants where cursor_name = :name
order by id desc limit :limit
