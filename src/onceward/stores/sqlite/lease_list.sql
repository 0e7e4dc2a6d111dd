-- List the leases that workers have, or had when they ran out, the latest end first.
-- Behind each: the seconds until then, whether it is held, and since when it is granted.
select cursor_name, lease_epoch, lease_owner, lease_expires_at,
  case when lease_boot_id is :boot then lease_expires_boot - :now
    else min(0.0, (julianday(lease_expires_at) - julianday(:wall)) * 86400.0) end,
  lease_boot_id is :boot and lease_expires_boot >= :now,
  (select granted_at from onceward_grants as granted
    where granted.cursor_name = cursor.cursor_name and granted.epoch = cursor.lease_epoch and ended_at is null
    order by id desc limit 1)
from cursor_positions as cursor
where lease_expires_at is not null and lease_owner is not null and substr(cursor_name, 1, 1) <> '~'
order by lease_expires_at desc limit :limit
