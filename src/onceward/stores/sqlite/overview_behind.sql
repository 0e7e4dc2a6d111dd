-- Return the cursors whose oldest message waits longest: for how long, how many wait, who holds them, whether paused.
select measure.cursor_name, max(0.0, (julianday(:wall) - 2440587.5) * 86400.0 - waiting_since), lag_messages,
  cursor.lease_owner, cursor.lease_boot_id is :boot and cursor.lease_expires_boot >= :now, coalesce(cursor.paused, 0)
from onceward_measures as measure join cursor_positions as cursor on cursor.cursor_name = measure.cursor_name
where waiting_since is not null
order by waiting_since, measure.cursor_name limit :limit
