-- Return everything about one cursor, and whether its lease has not run out.
select cursor_name, last_position, last_processed_at, lease_owner, lease_expires_at,
  lease_owner is not null and lease_expires_at is not null and lease_expires_boot is not null
    and lease_boot_id is :boot and lease_expires_boot >= :now,
  coalesce(error_count, 0), coalesce(paused, 0), coalesce(metadata, '{}'), lease_epoch,
  steal_count, processed_count, rules_version, created_at, updated_at
from cursor_positions where cursor_name = :name
