-- Decide what a crash left open of a step, unless somebody is at it.
update onceward_effects
set state = :state, result = :result, failure = null, note = :note, updated_at = :wall
where
  scope = :scope and key = :key and name = :name
  and (state = 'intended' or state = 'ambiguous') and (:fence is null or fence = :fence)
  -- A step that somebody is at now is not in doubt.
  and not exists (
    select 1
    from onceward_outcomes as outcome
    where
      outcome.scope = onceward_effects.scope and outcome.key = onceward_effects.key
      and outcome.fence = onceward_effects.fence and onceward_effects.state = 'intended'
      and outcome.state = 'running' and outcome.until_boot = :boot and :now < outcome.until_seconds
  )
returning fence
