-- Count the results and the tombstones that pruning would take.
select
  count(*) filter (where (state = 'done' or state = 'failed') and not is_over),
  count(*) filter (where is_over)
from (
  select
    state,
    until_at <= (select onceward_now()) - interval '30 days' as is_over
  from onceward_outcomes
  where
    state <> 'running' and state <> 'ambiguous'
    and state in ('done', 'failed', 'free', 'expired') and until_at <= (select onceward_now())
) as old
