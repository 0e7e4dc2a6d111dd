-- Read living relations of each of these entities: at most so many that begin there, and so many that end there.
select r.id, f.name, t.name, r.relation_type, r.source, r.run, onceward_time_text(r.created_at), f.id, f.entity_type, t.id, t.entity_type
from (select json_array_elements_text(:ids::json)::bigint as id limit :count) as i
cross join lateral (
  (select b.* from memory_relations as b
   where b.from_id = i.id and b.deleted_by is null order by b.to_id desc limit :each)
  union
  (select b.* from memory_relations as b
   where b.to_id = i.id and b.deleted_by is null limit :each)
) as r
join memory_entities as f on f.id = r.from_id
join memory_entities as t on t.id = r.to_id
order by r.id desc
