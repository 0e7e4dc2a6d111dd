-- Pause or resume a cursor; no row if it was so already.
update cursor_positions set paused = :paused, updated_at = :wall
where cursor_name = :name and coalesce(paused, false) <> :paused
returning lease_epoch, last_position
