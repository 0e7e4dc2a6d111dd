-- Let deleted entities be there again, with the types that are asked for now. Rows are name and type.
update memory_entities
set deleted_by = null, entity_type = r.value ->> '$.type'
from json_each(:rows) as r
where memory_entities.name = r.value ->> '$.name' and memory_entities.deleted_by is not null
returning memory_entities.id, memory_entities.name
