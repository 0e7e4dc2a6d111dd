-- Say how far a step has come.
select state, coalesce(result, failure), fence
from onceward_effects
where scope = :scope and key = :key and name = :name
