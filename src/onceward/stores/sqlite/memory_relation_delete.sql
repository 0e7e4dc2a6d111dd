-- Delete relations. Rows are the id of a relation and the change that deletes it.
update memory_relations
set deleted_by = r.value ->> '$.change'
from json_each(:rows) as r
where memory_relations.id = r.value ->> '$.id'
