-- List the leases that workers have, or had when they ran out, the latest end first.
-- Behind each: the seconds until then, whether it is held, and since when it is granted.
select cursor_name, lease_epoch, lease_owner, onceward_time_text(lease_expires_at),
  extract(epoch from lease_expires_at - onceward_now())::float8, onceward_cursor_is_held(cursor),
  (select onceward_time_text(granted_at) from onceward_grants as granted
    where granted.cursor_name = cursor.cursor_name and granted.epoch = cursor.lease_epoch and ended_at is null
    order by id desc limit 1)
from cursor_positions as cursor
where lease_expires_at is not null and lease_owner is not null and not starts_with(cursor_name, '~')
order by lease_expires_at desc limit :limit
