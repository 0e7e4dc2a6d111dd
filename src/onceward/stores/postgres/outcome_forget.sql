-- Erase what is known of a key and free it, under a new fence; a claim that lives is not touched.
update onceward_outcomes set
  state = 'free',
  fingerprint = null,
  fence = fence + 1,
  result = null,
  failure = null,
  note = :note,
  updated_at = onceward_now(),
  until_at = onceward_now()
where
  scope = :scope and key = :key and (:fence::bigint is null or fence = :fence)
  and (:updated_at::text is null or onceward_text(updated_at) = :updated_at)
  and not (state = 'running' and onceward_now() < until_at)
returning fence
