-- Count a failure of a group, and let it wait; nothing that arrives meanwhile shortens that.
update dispatch_groups
set attempt_count = :attempt, last_error = :error, retry_at = strftime('%Y-%m-%dT%H:%M:%fZ', julianday(:wall) + :seconds / 86400.0), updated_at = :wall
where name = :name
