-- Let deleted observations be there again. Rows are entity_id and fingerprint.
with found as (
  select o.id
  from (select * from json_to_recordset(:rows::json) as t (entity_id bigint, fingerprint text) limit :count) as r
  join memory_observations as o on o.entity_id = r.entity_id and o.fingerprint = r.fingerprint
  where o.deleted_by is not null
  order by o.entity_id, o.fingerprint
  for update of o
)
update memory_observations as o
set deleted_by = null
from found
where o.id = found.id and o.deleted_by is not null
returning o.id, o.entity_id, o.fingerprint
