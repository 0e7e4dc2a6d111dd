-- Find the living ones of these observations; their entities are held. Rows are entity_id and fingerprint.
select o.id, o.entity_id
from (select * from json_to_recordset(:rows::json) as t (entity_id bigint, fingerprint text) limit :count) as r
join memory_observations as o on o.entity_id = r.entity_id and o.fingerprint = r.fingerprint
where o.deleted_by is null
