-- The lease is extended, unless the cursor is paused.
lease_expires_at = iif(paused, lease_expires_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', :wall, :seconds || ' seconds')),
lease_expires_boot = iif(paused, lease_expires_boot, :now + :seconds),
lease_boot_id = iif(paused, lease_boot_id, :boot),
updated_at = :wall
