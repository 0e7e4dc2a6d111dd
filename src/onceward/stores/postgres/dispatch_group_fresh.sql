-- Forget a group's failures: something went well.
update dispatch_groups set attempt_count = 0, retry_at = null, last_error = null, updated_at = onceward_now()
where name = :name and (attempt_count > 0 or retry_at is not null)
