-- Set the position by hand; the epoch rises and nobody is the owner, so a live worker is refused.
update cursor_positions set
  last_position = :position,
  lease_epoch = lease_epoch + 1,
  lease_owner = null,
  lease_expires_at = null,
  lease_expires_boot = null,
  lease_boot_id = null,
  updated_at = :wall
where cursor_name = :name
returning lease_epoch
