-- Return the numbers of outcomes that have exactly this key, stepping from scope to scope by the index.
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
