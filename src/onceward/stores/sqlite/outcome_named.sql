-- Return the numbers of outcomes that have exactly this key, stepping from scope to scope by the index.
with recursive scopes (name) as (
  select coalesce(:scope, (select min(scope) from onceward_outcomes))
  union all
  select (select min(scope) from onceward_outcomes where scope > name) from scopes where name is not null and :scope is null
  limit :scopes
)
select outcome.rowid
from scopes
cross join onceward_outcomes as outcome on outcome.scope = name and outcome.key = :key
limit :limit
