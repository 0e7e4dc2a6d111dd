-- Return the cursors that nobody holds whose oldest message waits longest: how long, how many, who left, if paused.
select behind.cursor_name, max(0.0, (julianday(:wall) - 2440587.5) * 86400.0 - waiting_since), lag_messages,
  cursor.lease_owner, coalesce(cursor.paused, 0)
from (
  select cursor_name, waiting_since, lag_messages from onceward_measures
  where waiting_since is not null order by waiting_since limit 10000
) as behind
join cursor_positions as cursor on cursor.cursor_name = behind.cursor_name
where cursor.lease_owner is null or cursor.lease_boot_id is not :boot or cursor.lease_expires_boot < :now
order by waiting_since, behind.cursor_name limit :limit
