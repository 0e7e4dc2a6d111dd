-- Return what is another when a cursor moved, changed hands, ran out or was measured.
select count(*), sum(processed_count), sum(lease_epoch), sum(coalesce(paused, 0)), sum(error_count),
  sum(lease_boot_id is :boot and lease_expires_boot >= :now), (select max(measured_at) from onceward_measures)
from cursor_positions
