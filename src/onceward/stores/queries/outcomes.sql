-- Outcomes: idempotent calls by scope and key, and the steps (effects) inside them.

-- name: effect_forget
-- Delete the steps of a call.
delete from onceward_effects where scope = :scope and key = :key

-- name: effect_intend
-- Record the intent of a step, for the holder of its call, if the step is new or free.
insert into onceward_effects as effect (scope, key, name, state, fence, updated_at)
select scope, key, :name, 'intended', fence, {{ now }}
from onceward_outcomes
where
  scope = :scope and key = :key and fence = :fence and owner = :owner
  and claimed_at = {{ time(:granted_at) }}
  and state = 'running'
on conflict (scope, key, name) do update set
  state = 'intended',
  fence = excluded.fence,
  updated_at = excluded.updated_at,
  result = null,
  failure = null
where effect.state = 'free'
returning fence

-- name: effect_list
-- Return the steps of a call, in the order of their last change.
select name, state, fence, {{ exact_text(updated_at) }}, result, failure, note
from onceward_effects
where scope = :scope and key = :key
order by updated_at, name

-- name: effect_find
-- Return the state of a step.
select state, coalesce(result, failure), fence
from onceward_effects
where scope = :scope and key = :key and name = :name

-- name: effect_open
-- Return ambiguous steps of unsettled calls, oldest first.
select effect.scope, effect.key, effect.name, {{ text(effect.updated_at) }}
from onceward_effects as effect
join onceward_outcomes as outcome on outcome.scope = effect.scope and outcome.key = effect.key
where outcome.state <> 'done' and outcome.state <> 'failed' and outcome.state <> 'expired'
  and (effect.state = 'ambiguous' or (effect.state = 'intended' and not (
    outcome.fence = effect.fence and {{ is_running(outcome.) }}
  )))
order by effect.updated_at, effect.scope, effect.key, effect.name limit :limit

-- name: effect_reconcile
-- Decide an ambiguous step, unless it is running.
update onceward_effects
set state = :state, result = :result, failure = null, note = :note, updated_at = {{ now }}
where
  scope = :scope and key = :key and name = :name
  and (state = 'intended' or state = 'ambiguous') and (cast(:fence as bigint) is null or fence = :fence)
  -- A running step is not ambiguous.
  and not exists (
    select 1
    from onceward_outcomes as outcome
    where
      outcome.scope = onceward_effects.scope and outcome.key = onceward_effects.key
      and outcome.fence = onceward_effects.fence and onceward_effects.state = 'intended'
      and {{ is_running(outcome.) }}
  )
returning fence

-- name: effect_settle
-- Record how a step ended, for the holder that began it.
update onceward_effects
set state = :state, result = :result, failure = :failure, updated_at = {{ now }}
where
  scope = :scope and key = :key and name = :name and fence = :fence and state = 'intended'
returning fence

-- name: outcome_claim
-- Grant a key to one caller under a new fence when it is new, free, abandoned or the caller's own.
-- sqlite:
insert into onceward_outcomes as outcome (
  scope, key, fingerprint, state, fence, owner, on_crash,
  claimed_at, updated_at, until_at, until_boot, until_seconds
) values (
  :scope, :key, :fingerprint, 'running', 1, :owner, :on_crash,
  {{ now }}, {{ now }},
  {{ after(:lease_seconds) }}, :boot, :now + :lease_seconds
)
on conflict (scope, key) do update set
  {{ granted }},
  state = 'running',
  fence = outcome.fence + 1,
  result = null,
  failure = null
where
  {{ grantable }}
returning fence, claimed_at
-- postgres:
insert into onceward_outcomes as outcome (
  scope, key, fingerprint, state, fence, owner, on_crash, claimed_at, updated_at, until_at
)
select
  :scope, :key, :fingerprint, 'running', 1, :owner, :on_crash, moment, moment,
  moment + make_interval(secs => :lease_seconds)
from onceward_now() as moment
-- A concurrent caller that works in a transaction holds this lock until it commits.
where pg_try_advisory_xact_lock(hashtextextended(:scope || chr(31) || :key, 0))
on conflict (scope, key) do update set
  {{ granted }},
  state = 'running',
  fence = outcome.fence + 1,
  result = null,
  failure = null
where
  {{ grantable }}
returning fence, {{ exact_text(claimed_at) }}

-- name: outcome_expire
-- Delete expired results, in batches; a tombstone stays.
update onceward_outcomes set state = 'expired', result = null, failure = null, updated_at = {{ now }}
where (scope, key) in (
  select scope, key
  from onceward_outcomes
  where
    state <> 'running' and state <> 'ambiguous'
    and state in ('done', 'failed') and {{ ended(0) }}
  order by state, until_at
  limit :batch
  {{ lock(update skip locked) }}
)
returning scope, key

-- name: outcome_forget
-- Delete an outcome and free its key under a new fence; a running claim is not changed.
update onceward_outcomes set
  state = 'free',
  fingerprint = null,
  fence = fence + 1,
  result = null,
  failure = null,
  note = :note,
  updated_at = {{ now }},
  {{ ends_after(0.0) }}
where
  scope = :scope and key = :key and (cast(:fence as bigint) is null or fence = :fence)
  and (cast(:updated_at as text) is null or {{ exact_text(updated_at) }} = :updated_at)
  and not {{ is_running() }}
returning fence

-- name: outcome_lock (postgres)
-- Try to lock a key until the transaction ends, without waiting for a concurrent caller with the same key.
select pg_try_advisory_xact_lock(hashtextextended(:scope || chr(31) || :key, 0))

-- name: outcome_find
-- Return the state of a key for a caller that wants to claim it; writes nothing.
select
  {{ outcome_state }},
  fingerprint,
  coalesce(result, failure),
  fence,
  owner,
  {{ exact_text(claimed_at) }},
  {{ exact_text(until_at) }},
  {{ remaining(until) }}
from onceward_outcomes
where scope = :scope and key = :key

-- name: outcome_named
-- Return the numbers of outcomes that have exactly this key, stepping from scope to scope by the index.
-- sqlite:
with recursive scopes (name) as (
  select coalesce(:scope, (select min(scope) from onceward_outcomes))
  union all
  select (select min(scope) from onceward_outcomes where scope > name)
  from scopes where name is not null and :scope is null
  limit :scopes
)
select outcome.rowid
from scopes
cross join onceward_outcomes as outcome on outcome.scope = name and outcome.key = :key
limit :limit
-- postgres:
with recursive scopes (name) as (
  select coalesce(:scope::text, (select min(scope) from onceward_outcomes))
  union all
  select (select min(scope) from onceward_outcomes where scope > name)
  from scopes where name is not null and :scope::text is null
)
select found.sequence
from (select name from scopes limit :scopes) as first_ones
cross join lateral (select sequence from onceward_outcomes where scope = name and key = :key limit 1) as found
limit :limit

-- name: outcome_page
-- Examine :scan outcomes before a number, newest first. Return those that match and the last one examined.
-- sqlite:
with chosen as (
  select number from (
    select rowid as number from onceward_outcomes where not :is_open and rowid < :before
    order by rowid desc limit :scan
  )
  union all
  select number from (
    select rowid as number from onceward_outcomes where :is_open and state = 'running' and rowid < :before
    order by rowid desc limit :scan
  )
  union all
  select number from (
    select rowid as number from onceward_outcomes
    where :is_open and :state = 'ambiguous' and state = 'ambiguous' and rowid < :before
    order by rowid desc limit :scan
  )
),
scanned as (
  select
    number,
    scope,
    key,
    {{ outcome_state }} as current_state,
    fence,
    owner,
    fingerprint,
    on_crash,
    claimed_at,
    updated_at,
    until_at,
    result is not null as has_result,
    failure,
    note
  from (select number from chosen order by number desc limit :scan)
  cross join onceward_outcomes as o on o.rowid = number
),
judged as (
  select
    *,
    (:state is null or current_state = :state or (:state = 'free' and current_state = 'gone'))
    and (:scope is null or scope = :scope)
    and (:words is null or instr(lower(key), lower(:words)) > 0 or instr(lower(scope), lower(:words)) > 0)
      as is_wanted
  from scanned
)
select
  number,
  is_wanted,
  (select count(*) from scanned),
  has_result,
  scope,
  key,
  current_state,
  fence,
  owner,
  fingerprint,
  on_crash,
  claimed_at,
  updated_at,
  until_at,
  case when :with_results then (select o.result from onceward_outcomes as o where o.rowid = number) end,
  failure,
  note
from judged
where is_wanted or number = (select min(number) from scanned)
order by number desc
limit :limit
-- postgres:
with chosen as materialized (
  (
    select * from onceward_outcomes where not :is_open::boolean and sequence < :before::bigint
    order by sequence desc limit :scan
  )
  union all
  (
    select * from onceward_outcomes where :is_open::boolean and state = 'running' and sequence < :before::bigint
    order by sequence desc limit :scan
  )
  union all
  (
    select * from onceward_outcomes
    where :is_open::boolean and :state::text = 'ambiguous' and state = 'ambiguous' and sequence < :before::bigint
    order by sequence desc limit :scan
  )
  order by sequence desc
  limit :scan
),
scanned as (
  select
    *,
    {{ outcome_state }} as current_state
  from chosen
),
judged as (
  select
    *,
    (:state::text is null or current_state = :state or (:state = 'free' and current_state = 'gone'))
    and (:scope::text is null or scope = :scope)
    and (:words::text is null or position(lower(:words) in lower(key)) > 0
      or position(lower(:words) in lower(scope)) > 0) as is_wanted
  from scanned
)
select
  sequence,
  is_wanted,
  (select count(*) from chosen),
  result is not null,
  scope,
  key,
  current_state,
  fence,
  owner,
  fingerprint,
  on_crash,
  {{ exact_text(claimed_at) }},
  {{ exact_text(updated_at) }},
  {{ exact_text(until_at) }},
  case when :with_results::boolean then result end,
  failure,
  note
from judged
where is_wanted or sequence = (select min(sequence) from chosen)
order by sequence desc
limit :limit

-- name: outcome_prunable
-- Count the results and the tombstones that pruning would delete.
select
  count(*) filter (where (state = 'done' or state = 'failed') and not is_over),
  count(*) filter (where is_over)
from (
  select state, {{ ended(2592000) }} as is_over
  from onceward_outcomes
  where
    state <> 'running' and state <> 'ambiguous'
    and state in ('done', 'failed', 'free', 'expired') and {{ ended(0) }}
) as old

-- name: outcome_reconcile
-- Decide an ambiguous outcome, once, under a new fence; a running claim is not changed.
update onceward_outcomes set
  state = :state,
  fence = fence + 1,
  result = :result,
  failure = null,
  note = :note,
  updated_at = {{ now }},
  {{ ends_after(:ttl_seconds) }}
where
  scope = :scope and key = :key and (cast(:fence as bigint) is null or fence = :fence)
  and (state = 'ambiguous' or state = 'running') and not {{ is_running() }}
returning fence

-- name: outcome_release
-- Free a key for any caller and fingerprint, if the claim is still the holder's.
update onceward_outcomes set
  state = :state,
  fingerprint = null,
  result = :result,
  failure = :failure,
  updated_at = {{ now }},
  {{ ends_after(:ttl_seconds) }}
where
  scope = :scope and key = :key and fence = :fence and owner = :owner
  and claimed_at = {{ time(:granted_at) }}
  and (state = 'running' or state = 'ambiguous')
returning fence

-- name: outcome_remove
-- Remove some tombstones that are older than thirty days: those keys are new again.
delete from onceward_outcomes
where (scope, key) in (
  select scope, key
  from onceward_outcomes
  where
    state <> 'running' and state <> 'ambiguous'
    and state in ('done', 'failed', 'free', 'expired') and {{ ended(2592000) }}
  order by state, until_at
  limit :batch
  {{ lock(update skip locked) }}
)
returning scope, key

-- name: outcome_renew
-- Renew a claim, for its holder only.
update onceward_outcomes
set {{ ends_after(:lease_seconds) }}
where
  scope = :scope and key = :key and fence = :fence and owner = :owner
  and claimed_at = {{ time(:granted_at) }}
  and state = 'running'
returning fence

-- name: outcome_settle
-- Record the result of claimed work, if the claim is still the holder's.
update onceward_outcomes set
  state = :state,
  result = :result,
  failure = :failure,
  updated_at = {{ now }},
  {{ ends_after(:ttl_seconds) }}
where
  scope = :scope and key = :key and fence = :fence and owner = :owner
  and claimed_at = {{ time(:granted_at) }} and (state = 'running' or state = 'ambiguous')
{{ returning_rows }}

-- name: outcome_settle_new
-- Record how work in a transaction ended, when the key is unchanged since the work began.
-- sqlite:
insert into onceward_outcomes as outcome (
  scope, key, fingerprint, state, fence, owner, on_crash,
  claimed_at, updated_at, until_at, until_boot, until_seconds, result, failure
) values (
  :scope, :key, :fingerprint, :state, :fence, :owner, 'rerun', {{ now }}, {{ now }},
  {{ after(:ttl_seconds) }}, :boot, :now + :ttl_seconds,
  :result, :failure
)
on conflict (scope, key) do update set
  {{ granted }},
  state = excluded.state,
  fence = excluded.fence,
  result = excluded.result,
  failure = excluded.failure
where
  outcome.fence = excluded.fence - 1
  and (
    {{ grantable }}
  )
-- postgres:
insert into onceward_outcomes as outcome (
  scope, key, fingerprint, state, fence, owner, on_crash,
  claimed_at, updated_at, until_at, result, failure
)
select
  :scope, :key, :fingerprint, :state, :fence, :owner, 'rerun',
  moment, moment, moment + make_interval(secs => :ttl_seconds), :result, :failure
from onceward_now() as moment
on conflict (scope, key) do update set
  {{ granted }},
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

-- name: outcome_settled
-- Return the result that a holder recorded, if its claim was the last.
select state, result, failure
from onceward_outcomes
where
  scope = :scope and key = :key and fence = :fence and owner = :owner
  and claimed_at = {{ time(:granted_at) }}

-- name: outcome_show
-- Return one outcome with its result.
select
  scope,
  key,
  {{ outcome_state }},
  fence,
  owner,
  fingerprint,
  on_crash,
  {{ exact_text(claimed_at) }},
  {{ exact_text(updated_at) }},
  {{ exact_text(until_at) }},
  result,
  failure,
  note
from onceward_outcomes
where scope = :scope and key = :key
