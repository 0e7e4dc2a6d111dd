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
  fingerprint = excluded.fingerprint,
  state = 'running',
  fence = outcome.fence + 1,
  owner = excluded.owner,
  on_crash = excluded.on_crash,
  claimed_at = excluded.claimed_at,
  updated_at = excluded.updated_at,
  until_at = excluded.until_at,
  result = null,
  failure = null
where
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
returning fence, onceward_text(claimed_at)
