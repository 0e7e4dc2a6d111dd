-- Return how many cursors there are, held, left by holders whose lease ran out, and paused; reads all of them.
select count(*), coalesce(sum(lease_boot_id is :boot and lease_expires_boot >= :now), 0),
  coalesce(sum(lease_owner is not null and not (lease_boot_id is :boot and lease_expires_boot >= :now)), 0),
  coalesce(sum(coalesce(paused, 0)), 0), coalesce(sum(processed_count), 0)
from cursor_positions where substr(cursor_name, 1, 1) <> '~'
