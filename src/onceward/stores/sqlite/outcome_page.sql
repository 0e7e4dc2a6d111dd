-- Look at so many outcomes before a number, the newest first, and return those wanted and the last one looked at.
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
    {{ standing }} as standing,
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
    (:state is null or standing = :state or (:state = 'free' and standing = 'gone'))
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
  standing,
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
