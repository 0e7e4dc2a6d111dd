-- Erase some results whose life is over; a tombstone stays.
update onceward_outcomes as outcome
set state = 'expired', result = null, failure = null, updated_at = onceward_now()
from (
  select scope, key
  from onceward_outcomes
  where
    state <> 'running' and state <> 'ambiguous'
    and (state = 'done' or state = 'failed') and until_at <= onceward_now()
  limit :batch
  for update skip locked
) as old
where outcome.scope = old.scope and outcome.key = old.key
returning outcome.scope, outcome.key
