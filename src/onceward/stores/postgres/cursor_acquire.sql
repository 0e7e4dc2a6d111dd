-- Grant the lease if it is free, has run out or is the worker's own, never while paused; else no row.
select lease_epoch, last_position, rules_version
from onceward_cursor_acquire(
  :name::text, :worker::text, :seconds::double precision, :version::integer
)
