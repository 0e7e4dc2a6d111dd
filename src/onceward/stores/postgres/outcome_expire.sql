-- Erase some results whose life is over; a tombstone stays.
update onceward_outcomes as outcome
set state = 'expired', result = null, failure = null, updated_at = onceward_now()
from (
  select scope, key
  from onceward_outcomes
  where
    state <> 'running' and state <> 'ambiguous'
    and state in ('done', 'failed') and until_at <= (select onceward_now())
  order by state, until_at
  limit :batch
  for update skip locked
) as old
where outcome.scope = old.scope and outcome.key = old.key
returning outcome.scope, outcome.key
