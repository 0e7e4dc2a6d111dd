-- Erase what is known of a key and free it, under a new fence; a claim that lives is not touched.
update onceward_outcomes set
  state = 'free',
  fingerprint = null,
  fence = fence + 1,
  result = null,
  failure = null,
  note = :note,
  updated_at = :wall,
  until_at = :wall,
  until_boot = :boot,
  until_seconds = :now
where
  scope = :scope and key = :key and (:fence is null or fence = :fence)
  and (:updated_at is null or updated_at = :updated_at)
  and not (state = 'running' and until_boot = :boot and :now < until_seconds)
returning fence
