-- Record how work in a transaction ended, when the key stands as it did when the work began.
insert into onceward_outcomes as outcome (
  scope, key, fingerprint, state, fence, owner, on_crash,
  claimed_at, updated_at, until_at, until_boot, until_seconds, result, failure
) values (
  :scope, :key, :fingerprint, :state, :fence, :owner, 'rerun', :wall, :wall,
  strftime('%Y-%m-%dT%H:%M:%fZ', :wall, round(:ttl_seconds, 3) || ' seconds'), :boot, :now + :ttl_seconds,
  :result, :failure
)
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
