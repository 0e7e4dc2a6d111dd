-- Delete all observations of entities, by the change that deletes the entity.
update memory_observations
set deleted_by = r.value ->> '$.change'
from json_each(:rows) as r
where memory_observations.entity_id = r.value ->> '$.id' and memory_observations.deleted_by is null
returning memory_observations.id
