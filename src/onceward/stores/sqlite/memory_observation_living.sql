-- Find the living ones of these observations; their entities are held. Rows are entity_id and fingerprint.
select o.id, o.entity_id
from json_each(:rows) as r
join memory_observations as o
  on o.entity_id = r.value ->> '$.entity_id' and o.fingerprint = r.value ->> '$.fingerprint'
where o.deleted_by is null
