-- Return the cursors that nobody holds whose oldest message waits longest: how long, how many, who left, if paused.
select behind.cursor_name, greatest(0, extract(epoch from onceward_now()) - waiting_since)::float8, lag_messages,
  cursor.lease_owner, coalesce(cursor.paused, false)
from (
  select cursor_name, waiting_since, lag_messages from onceward_measures
  where waiting_since is not null order by waiting_since limit 10000
) as behind
join cursor_positions as cursor on cursor.cursor_name = behind.cursor_name
where cursor.lease_owner is null or coalesce(cursor.lease_expires_at < onceward_now(), true)
order by waiting_since, behind.cursor_name limit :limit
