-- Free a key for any caller and any work, when its holder still is the holder.
update onceward_outcomes set
  state = :state,
  fingerprint = null,
  result = :result,
  failure = :failure,
  updated_at = onceward_now(),
  until_at = onceward_now() + make_interval(secs => :ttl_seconds)
where
  scope = :scope and key = :key and fence = :fence and owner = :owner
  and claimed_at = :granted_at::timestamptz
  and (state = 'running' or state = 'ambiguous')
returning fence
