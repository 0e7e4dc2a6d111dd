-- Erase some results whose life is over; a tombstone stays.
update onceward_outcomes set state = 'expired', result = null, failure = null, updated_at = :wall
where (scope, key) in (
  select scope, key
  from onceward_outcomes
  where
    state <> 'running' and state <> 'ambiguous'
    and state in ('done', 'failed') and until_at <= :wall
    and (until_boot <> :boot or :now >= until_seconds)
  order by state, until_at
  limit :batch
)
returning scope, key
