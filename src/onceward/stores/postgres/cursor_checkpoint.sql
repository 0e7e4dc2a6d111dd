-- Move the holder's position and renew its lease; raises OW001 in the database if it is lost.
-- The commit is on its way behind it. A client that freezes in between is found by this lock, as a
-- guard is, and ended by whoever may take over.
select :epoch::bigint from onceward_cursor_checkpoint(
  :name::text, :worker::text, :epoch::bigint, :position::text, :count::bigint,
  :seconds::double precision
), pg_advisory_xact_lock_shared(onceward_cursor_key(:name::text))
