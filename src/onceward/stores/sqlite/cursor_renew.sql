-- Extend the holder's lease unless the cursor is paused, and say whether it is; no row if lost.
update cursor_positions set
  {{ lease_renewed }}
where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch
returning coalesce(paused, 0)
