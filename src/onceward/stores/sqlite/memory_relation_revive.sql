-- Let deleted relations be there again. Rows are from_id, to_id and type.
update memory_relations
set deleted_by = null
from json_each(:rows) as r
where memory_relations.from_id = r.value ->> '$.from_id' and memory_relations.to_id = r.value ->> '$.to_id'
  and memory_relations.relation_type = r.value ->> '$.type' and memory_relations.deleted_by is not null
returning memory_relations.id, memory_relations.from_id, memory_relations.to_id, memory_relations.relation_type
