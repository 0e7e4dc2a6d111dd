-- Delete relations. Rows are the id of a relation and the change that deletes it.
update memory_relations as o
set deleted_by = r.change
from (select * from json_to_recordset(:rows::json) as t (id bigint, change bigint) limit :count) as r
where o.id = r.id
