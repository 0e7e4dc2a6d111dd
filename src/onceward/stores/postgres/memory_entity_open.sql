-- Read the living entities of these names, in the order in which they came.
select e.id, e.name, e.entity_type, e.source, e.run, onceward_time_text(e.created_at)
from memory_entities as e
where e.name in (select json_array_elements_text(:names::json) limit :count) and e.deleted_by is null
order by e.id
