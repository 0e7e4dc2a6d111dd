-- Grant a key to one caller, when it is new, free, abandoned or the caller's own, under a new fence.
insert into onceward_outcomes as outcome (
  scope, key, fingerprint, state, fence, owner, on_crash,
  claimed_at, updated_at, until_at, until_boot, until_seconds
) values (
  :scope, :key, :fingerprint, 'running', 1, :owner, :on_crash,
  :wall, :wall,
  strftime('%Y-%m-%dT%H:%M:%fZ', :wall, round(:lease_seconds, 3) || ' seconds'), :boot, :now + :lease_seconds
)
on conflict (scope, key) do update set
  fingerprint = excluded.fingerprint,
  state = 'running',
  fence = outcome.fence + 1,
  owner = excluded.owner,
  on_crash = excluded.on_crash,
  claimed_at = excluded.claimed_at,
  updated_at = excluded.updated_at,
  until_at = excluded.until_at,
  until_boot = excluded.until_boot,
  until_seconds = excluded.until_seconds,
  result = null,
  failure = null
where
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
returning fence, claimed_at
