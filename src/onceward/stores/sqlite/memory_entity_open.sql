-- Read the living entities of these names, in the order in which they came.
select e.id, e.name, e.entity_type, e.source, e.run, e.created_at
from memory_entities as e
where e.name in (select value from json_each(:names)) and e.deleted_by is null
order by e.id
