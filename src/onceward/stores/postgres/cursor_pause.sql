-- Pause or resume a cursor; no row if it was so already.
update cursor_positions set paused = :paused::boolean, updated_at = onceward_now()
where cursor_name = :name and coalesce(paused, false) <> :paused::boolean
returning lease_epoch, last_position
