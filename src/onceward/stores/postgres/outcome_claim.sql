-- Grant a key to one caller, when it is new, free, abandoned or the caller's own, under a new fence.
insert into onceward_outcomes as outcome (
  scope, key, fingerprint, state, fence, owner, on_crash, claimed_at, updated_at, until_at
)
select
  :scope, :key, :fingerprint, 'running', 1, :owner, :on_crash, moment, moment,
  moment + make_interval(secs => :lease_seconds)
from onceward_now() as moment
-- A twin that works in a transaction holds this until it commits.
where pg_try_advisory_xact_lock(hashtextextended(:scope || chr(31) || :key, 0))
on conflict (scope, key) do update set
  {{ granted_anew }},
  state = 'running',
  fence = outcome.fence + 1,
  result = null,
  failure = null
where
  {{ grantable }}
returning fence, onceward_text(claimed_at)
