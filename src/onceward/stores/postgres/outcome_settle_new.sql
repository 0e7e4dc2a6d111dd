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
  {{ granted_anew }},
  state = excluded.state,
  fence = excluded.fence,
  result = excluded.result,
  failure = excluded.failure
where
  outcome.fence = excluded.fence - 1
  and (
    {{ grantable }}
  )
returning fence
