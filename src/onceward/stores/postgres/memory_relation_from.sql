-- Read the living relations that begin at one of these entities, the newest first.
select x.id,
  (select e.name from memory_entities as e where e.id = x.from_id),
  (select e.name from memory_entities as e where e.id = x.to_id),
  x.relation_type, x.source, x.run, onceward_time_text(x.created_at)
from (
  select r.* from (select json_array_elements_text(:ids::json)::bigint as id limit :count) as i
  join memory_relations as r on r.from_id = i.id and r.deleted_by is null
) as x
order by x.id desc
limit :limit
