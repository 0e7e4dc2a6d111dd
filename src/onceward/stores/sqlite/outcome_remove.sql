-- Remove some tombstones that have stood for thirty days: those keys are new again.
delete from onceward_outcomes
where (scope, key) in (
  select scope, key
  from onceward_outcomes
  where
    state <> 'running' and state <> 'ambiguous'
    and state in ('done', 'failed', 'free', 'expired')
    and until_at <= strftime('%Y-%m-%dT%H:%M:%fZ', :wall, '-30 days')
    and (until_boot <> :boot or :now >= until_seconds + 2592000)
  order by state, until_at
  limit :batch
)
returning scope, key
