-- Extend the holder's lease unless the cursor is paused, and say whether it is; no row if lost.
update cursor_positions set
  lease_expires_at = case when paused then lease_expires_at
    else onceward_now() + make_interval(secs => :seconds::double precision) end,
  updated_at = onceward_now()
where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch
returning coalesce(paused, false)
