-- Decide what a crash left open, once, under a new fence; a claim that lives is not touched.
update onceward_outcomes set
  state = :state,
  fence = fence + 1,
  result = :result,
  failure = null,
  note = :note,
  updated_at = :wall,
  until_at = strftime('%Y-%m-%dT%H:%M:%fZ', :wall, round(:ttl_seconds, 3) || ' seconds'),
  until_boot = :boot,
  until_seconds = :now + :ttl_seconds
where
  scope = :scope and key = :key and (:fence is null or fence = :fence)
  and (
    state = 'ambiguous'
    or (state = 'running' and not (until_boot = :boot and :now < until_seconds))
  )
returning fence
