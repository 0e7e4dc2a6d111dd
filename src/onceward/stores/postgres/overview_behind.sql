-- Return the cursors whose oldest message waits longest: for how long, how many wait, who holds them, whether paused.
select measure.cursor_name, greatest(0, extract(epoch from onceward_now()) - waiting_since)::float8, lag_messages,
  cursor.lease_owner, coalesce(cursor.lease_owner is not null and cursor.lease_expires_at >= onceward_now(), false),
  coalesce(cursor.paused, false)
from onceward_measures as measure join cursor_positions as cursor on cursor.cursor_name = measure.cursor_name
where waiting_since is not null
order by waiting_since, measure.cursor_name limit :limit
