-- Delete all observations of entities, by the change that deletes the entity.
update memory_observations as o
set deleted_by = r.change
from (select * from json_to_recordset(:rows::json) as t (id bigint, change bigint) limit :count) as r
where o.entity_id = r.id and o.deleted_by is null
returning o.id
