-- Return the steps that were begun and fell silent, of work that is not settled, the oldest first.
select effect.scope, effect.key, effect.name, effect.updated_at
from onceward_effects as effect
join onceward_outcomes as outcome on outcome.scope = effect.scope and outcome.key = effect.key
where outcome.state <> 'done' and outcome.state <> 'failed' and outcome.state <> 'expired'
  and (effect.state = 'ambiguous' or (effect.state = 'intended' and not (
    outcome.state = 'running' and outcome.fence = effect.fence
    and outcome.until_boot = :boot and :now < outcome.until_seconds
  )))
order by effect.updated_at, effect.scope, effect.key, effect.name limit :limit
