-- Read one observation of an entity, living or not; a long one is cut.
select o.id, substr(o.content, 1, :shown), o.fingerprint, o.kind, o.ts, o.source, o.run, onceward_time_text(o.created_at)
from memory_observations as o
where o.id = :id and o.entity_id = :entity
