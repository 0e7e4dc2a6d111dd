-- Give the holder's lease back; no row if it is lost.
update cursor_positions set
  lease_owner = null,
  lease_expires_at = null,
  updated_at = onceward_now()
where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch
returning lease_epoch
