-- Read the living observations of entities, the newest first.
select o.entity_id, o.id, o.content, o.fingerprint, o.kind, o.ts, o.source, o.run, o.created_at
from memory_observations as o
where o.entity_id in (select value from json_each(:ids)) and o.deleted_by is null
order by o.id desc
limit :limit
