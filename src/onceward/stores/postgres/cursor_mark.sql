-- Let whoever takes a cursor over find this transaction, and end it.
select pg_advisory_xact_lock_shared(onceward_cursor_key(:name::text))
