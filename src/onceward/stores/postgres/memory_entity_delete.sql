-- Delete entities. Rows are the id of an entity and the change that deletes it.
update memory_entities as e
set deleted_by = r.change
from (select * from json_to_recordset(:rows::json) as t (id bigint, change bigint) limit :count) as r
where e.id = r.id
returning e.id
