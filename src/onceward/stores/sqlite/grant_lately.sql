-- List the grants that ended in the last so many seconds, the latest first, and who was granted the cursor next.
select cursor_name, epoch, worker, granted_at, ended_at, ending, expired_at,
  case when ending = 'stolen' then (
    select later.worker from onceward_grants as later
    where later.cursor_name = granted.cursor_name and later.id > granted.id order by later.id limit 1
  ) end
from onceward_grants as granted
where ended_at > strftime('%Y-%m-%dT%H:%M:%fZ', :wall, -:seconds || ' seconds')
order by ended_at desc limit :limit
