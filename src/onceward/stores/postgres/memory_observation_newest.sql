-- Read the newest living observations of an entity, by the index of documents; long ones are cut.
select o.id, substr(o.content, 1, :shown), o.fingerprint, o.kind, o.ts, o.source, o.run, onceward_time_text(o.created_at)
from (
  select d.observation_id as id from memory_docs as d
  where d.entity_id = :id and d.observation_id is not null
  order by d.observation_id desc
  limit :limit) as n
join memory_observations as o on o.id = n.id
order by o.id desc
