-- Extend the holder's lease unless the cursor is paused, and say whether it is; no row if lost.
update cursor_positions set
  lease_expires_at = iif(paused, lease_expires_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', :wall, :seconds || ' seconds')),
  lease_expires_boot = iif(paused, lease_expires_boot, :now + :seconds),
  lease_boot_id = iif(paused, lease_boot_id, :boot),
  updated_at = :wall
where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch
returning coalesce(paused, 0)
