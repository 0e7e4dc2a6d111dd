-- Record how a step ended, for the holder that began it.
update onceward_effects
set state = :state, result = :result, failure = :failure, updated_at = :wall
where
  scope = :scope and key = :key and name = :name and fence = :fence and state = 'intended'
returning fence
