-- Count the results and the tombstones that pruning would take.
select
  count(*) filter (where (state = 'done' or state = 'failed') and not is_over),
  count(*) filter (where is_over)
from (
  select
    state,
    until_at <= strftime('%Y-%m-%dT%H:%M:%fZ', :wall, '-30 days')
    and (until_boot <> :boot or :now >= until_seconds + 2592000) as is_over
  from onceward_outcomes
  where
    state <> 'running' and state <> 'ambiguous'
    and state in ('done', 'failed', 'free', 'expired')
    and until_at <= :wall and (until_boot <> :boot or :now >= until_seconds)
) as old
