-- Read the living ones of these entities.
select e.id, e.name, e.entity_type, e.source, e.run, onceward_time_text(e.created_at)
from memory_entities as e
where e.id in (select json_array_elements_text(:ids::json)::bigint limit :count) and e.deleted_by is null
order by e.id
