-- Remove some tombstones that have stood for thirty days: those keys are new again.
delete from onceward_outcomes as outcome
using (
  select scope, key
  from onceward_outcomes
  where
    state <> 'running' and state <> 'ambiguous'
    and state in ('done', 'failed', 'free', 'expired') and until_at <= (select onceward_now()) - interval '30 days'
  order by state, until_at
  limit :batch
  for update skip locked
) as old
where outcome.scope = old.scope and outcome.key = old.key
returning outcome.scope, outcome.key
