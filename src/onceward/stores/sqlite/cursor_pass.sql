-- Move the holder's position past messages that failed or line up, count the failures, and renew its lease; no row if it is lost.
update cursor_positions set
  last_position = :position,
  last_processed_at = :wall,
  error_count = coalesce(error_count, 0) + :failed,
  processed_count = processed_count + :count,
  {{ lease_renewed }}
where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch
