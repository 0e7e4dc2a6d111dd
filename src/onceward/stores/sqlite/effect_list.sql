-- Return the steps of a piece of work, in the order they were last touched.
select name, state, fence, updated_at, result, failure, note
from onceward_effects
where scope = :scope and key = :key
order by updated_at, name
