-- Return how many cursors there are, held, left by holders whose lease ran out, and paused; reads all of them.
select count(*), count(*) filter (where lease_owner is not null and lease_expires_at >= onceward_now()),
  count(*) filter (where lease_owner is not null and coalesce(lease_expires_at < onceward_now(), true)),
  count(*) filter (where paused), coalesce(sum(processed_count), 0)::bigint
from cursor_positions where not starts_with(cursor_name, '~')
