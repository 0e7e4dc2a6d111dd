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
  {{ granted_anew }},
  state = 'running',
  fence = outcome.fence + 1,
  result = null,
  failure = null
where
  {{ grantable }}
returning fence, claimed_at
