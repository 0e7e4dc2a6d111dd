-- Let one process migrate at a time; the lock ends with the transaction.
select pg_advisory_xact_lock(hashtext('onceward_migrations'))
