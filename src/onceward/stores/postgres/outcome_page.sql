-- Look at so many outcomes before a number, the newest first, and return those wanted and the last one looked at.
-- Not by the view: what is asked anew for every row would keep the order of the index from being used.
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
    case
      when state = 'running' and onceward_now() < until_at then 'running'
      when state = 'running' and on_crash = 'rerun' then 'abandoned'
      when state = 'running' then 'ambiguous'
      when state = 'ambiguous' or until_at is null then state
      when onceward_now() >= until_at + interval '30 days' then 'free'
      when state = 'free' or onceward_now() < until_at then state
      else 'expired'
    end as standing
  from chosen
),
judged as (
  select
    *,
    (:state::text is null or standing = :state)
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
  standing,
  fence,
  owner,
  fingerprint,
  on_crash,
  onceward_text(claimed_at),
  onceward_text(updated_at),
  onceward_text(until_at),
  case when :with_results::boolean then result end,
  failure,
  note
from judged
where is_wanted or sequence = (select min(sequence) from chosen)
order by sequence desc
limit :limit
