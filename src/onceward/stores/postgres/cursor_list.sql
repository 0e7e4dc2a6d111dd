-- Return everything about the cursors behind a name, and whether their leases have not run out.
select cursor_name, last_position, onceward_time_text(last_processed_at), lease_owner,
  onceward_time_text(lease_expires_at), onceward_cursor_is_held(each), coalesce(error_count, 0),
  coalesce(paused, false), coalesce(metadata, '{}')::text, lease_epoch, steal_count,
  processed_count, rules_version, onceward_time_text(created_at), onceward_time_text(updated_at)
from cursor_positions as each
where cursor_name > :after
order by cursor_name limit :limit
