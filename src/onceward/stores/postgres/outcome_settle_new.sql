-- Record how work in a transaction ended, when the key stands as it did when the work began.
insert into onceward_outcomes as outcome (
  scope, key, fingerprint, state, fence, owner, on_crash,
  claimed_at, updated_at, until_at, result, failure
)
select
  :scope, :key, :fingerprint, :state, :fence, :owner, 'rerun',
  moment, moment, moment + make_interval(secs => :ttl_seconds), :result, :failure
from onceward_now() as moment
on conflict (scope, key) do update set
  fingerprint = excluded.fingerprint,
  state = excluded.state,
  fence = excluded.fence,
  owner = excluded.owner,
  on_crash = excluded.on_crash,
  claimed_at = excluded.claimed_at,
  updated_at = excluded.updated_at,
  until_at = excluded.until_at,
  result = excluded.result,
  failure = excluded.failure
where
  outcome.fence = excluded.fence - 1
  and (
    (
      (outcome.fingerprint is null or outcome.fingerprint = excluded.fingerprint)
      and case
        when outcome.state = 'free' then true
        when outcome.state <> 'running' then false
        when onceward_now() < outcome.until_at then outcome.owner = excluded.owner
        else outcome.on_crash = 'rerun'
      end
    )
    or (
      outcome.state <> 'running' and outcome.state <> 'ambiguous'
      and onceward_now() >= outcome.until_at + interval '30 days'
    )
  )
returning fence
