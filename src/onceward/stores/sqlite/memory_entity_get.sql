-- Read the living ones of these entities.
select e.id, e.name, e.entity_type, e.source, e.run, e.created_at
from memory_entities as e
where e.id in (select value from json_each(:ids)) and e.deleted_by is null
order by e.id
