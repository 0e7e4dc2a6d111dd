-- List what late holders were refused in the last so many seconds, the latest first.
select cursor_name, happened_at, worker, epoch, current_epoch, current_owner, what
from (select * from onceward_refusals order by id desc limit :limit)
where happened_at > strftime('%Y-%m-%dT%H:%M:%fZ', :wall, -:seconds || ' seconds')
order by id desc
