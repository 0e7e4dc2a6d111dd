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
  fingerprint = excluded.fingerprint,
  state = excluded.state,
  fence = excluded.fence,
  owner = excluded.owner,
  on_crash = excluded.on_crash,
  claimed_at = excluded.claimed_at,
  updated_at = excluded.updated_at,
  until_at = excluded.until_at,
  until_boot = excluded.until_boot,
  until_seconds = excluded.until_seconds,
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
        when outcome.until_boot = :boot and :now < outcome.until_seconds
          then outcome.owner = excluded.owner
        else outcome.on_crash = 'rerun'
      end
    )
    or (
      outcome.state <> 'running' and outcome.state <> 'ambiguous'
      and case
        when outcome.until_boot = :boot then :now >= outcome.until_seconds + 2592000
        else :wall >= strftime('%Y-%m-%dT%H:%M:%fZ', outcome.until_at, '+30 days')
      end
    )
  )
returning fence
