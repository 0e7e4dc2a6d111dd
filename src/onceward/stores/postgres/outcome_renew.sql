-- Keep a claim alive, for its holder only.
update onceward_outcomes
set until_at = onceward_now() + make_interval(secs => :lease_seconds)
where
  scope = :scope and key = :key and fence = :fence and owner = :owner
  and claimed_at = :granted_at::timestamptz
  and state = 'running'
returning fence
