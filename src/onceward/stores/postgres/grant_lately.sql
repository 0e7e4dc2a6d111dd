-- List the grants that ended in the last so many seconds, the latest first, and who was granted the cursor next.
select cursor_name, epoch, worker, onceward_time_text(granted_at), onceward_time_text(ended_at), ending,
  onceward_time_text(expired_at),
  case when ending = 'stolen' then (
    select later.worker from onceward_grants as later
    where later.cursor_name = granted.cursor_name and later.id > granted.id order by later.id limit 1
  ) end
from onceward_grants as granted
where ended_at > (select onceward_now()) - make_interval(secs => :seconds::float8)
order by ended_at desc limit :limit
