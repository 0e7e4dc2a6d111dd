-- Decide what a crash left open, once, under a new fence; a claim that lives is not touched.
update onceward_outcomes set
  state = :state,
  fence = fence + 1,
  result = :result,
  failure = null,
  note = :note,
  updated_at = onceward_now(),
  until_at = onceward_now() + make_interval(secs => :ttl_seconds)
where
  scope = :scope and key = :key and (:fence::bigint is null or fence = :fence)
  and (state = 'ambiguous' or (state = 'running' and onceward_now() >= until_at))
returning fence
