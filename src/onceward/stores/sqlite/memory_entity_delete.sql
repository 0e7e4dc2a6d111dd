-- Delete entities. Rows are the id of an entity and the change that deletes it.
update memory_entities
set deleted_by = r.value ->> '$.change'
from json_each(:rows) as r
where memory_entities.id = r.value ->> '$.id'
returning memory_entities.id
