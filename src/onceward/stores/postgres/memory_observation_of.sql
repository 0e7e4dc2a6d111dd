-- Read the living observations of entities, the newest first.
select o.entity_id, o.id, o.content, o.fingerprint, o.kind, o.ts, o.source, o.run, onceward_time_text(o.created_at)
from memory_observations as o
where o.entity_id in (select json_array_elements_text(:ids::json)::bigint limit :count) and o.deleted_by is null
order by o.id desc
limit :limit
