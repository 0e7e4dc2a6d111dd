-- Move the holder's position and renew its lease; raises OW001 in the database if it is lost.
select :epoch::bigint from onceward_cursor_checkpoint(
  :name::text, :worker::text, :epoch::bigint, :position::text, :count::bigint,
  :seconds::double precision
)
