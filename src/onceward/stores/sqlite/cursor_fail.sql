-- Count one more failure in a row of the holder, and return how many; no row if the lease is lost.
update cursor_positions set
  error_count = coalesce(error_count, 0) + 1,
  updated_at = :wall
where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch
returning error_count
