-- Keep a claim alive, for its holder only.
update onceward_outcomes set
  until_at = strftime('%Y-%m-%dT%H:%M:%fZ', :wall, round(:lease_seconds, 3) || ' seconds'),
  until_boot = :boot,
  until_seconds = :now + :lease_seconds
where
  scope = :scope and key = :key and fence = :fence and owner = :owner
  and claimed_at = :granted_at and state = 'running'
returning fence
