-- Count a failure of a group, and let it wait; nothing that arrives meanwhile shortens that.
update dispatch_groups
set attempt_count = :attempt, last_error = :error, retry_at = onceward_now() + make_interval(secs => :seconds), updated_at = onceward_now()
where name = :name
