-- Move the holder's position past messages that failed or line up, count the failures, and renew its lease.
-- As `cursor_checkpoint`: raises OW001 in the database if the lease is lost, and can be found by its lock.
with moved as (
  update cursor_positions set
    last_position = :position::text,
    last_processed_at = t.moment,
    error_count = coalesce(error_count, 0) + :failed::int,
    processed_count = processed_count + :count::bigint,
    lease_expires_at = case when paused then lease_expires_at
      else t.moment + make_interval(secs => :seconds::double precision) end,
    updated_at = t.moment
  from (select onceward_now() as moment) as t
  where cursor_name = :name::text and lease_owner = :worker::text and lease_epoch = :epoch::bigint
  returning 1
)
select :epoch::bigint,
  (select onceward_lease_lost(:name::text, :epoch::bigint) where not exists (select from moved))
from pg_advisory_xact_lock_shared(onceward_cursor_key(:name::text))
