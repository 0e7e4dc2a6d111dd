-- Free a key for any caller and any work, when its holder still is the holder.
update onceward_outcomes set
  state = :state,
  fingerprint = null,
  result = :result,
  failure = :failure,
  updated_at = :wall,
  until_at = strftime('%Y-%m-%dT%H:%M:%fZ', :wall, round(:ttl_seconds, 3) || ' seconds'),
  until_boot = :boot,
  until_seconds = :now + :ttl_seconds
where
  scope = :scope and key = :key and fence = :fence and owner = :owner
  and claimed_at = :granted_at and (state = 'running' or state = 'ambiguous')
returning fence
