-- Return what is another when a cursor moved, changed hands, ran out or was measured.
select count(*), sum(processed_count), sum(lease_epoch), count(*) filter (where paused), sum(error_count),
  count(*) filter (where lease_expires_at >= onceward_now()), (select max(measured_at)::text from onceward_measures)
from cursor_positions
