-- Write the holder's position in the form of another version; no row if the lease is lost.
update cursor_positions set
  last_position = :position,
  rules_version = :version,
  updated_at = :wall
where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch
returning lease_epoch
