-- Read living relations of each of these entities: at most so many that begin there, and so many that end there.
select r.id, f.name, t.name, r.relation_type, r.source, r.run, r.created_at, f.id, f.entity_type, t.id, t.entity_type
from json_each(:ids) as i
cross join memory_relations as r on r.id in (
  select id from (
    select b.id from memory_relations as b
    where b.from_id = i.value and b.deleted_by is null order by b.to_id desc limit :each)
  union
  select id from (
    select b.id from memory_relations as b
    where b.to_id = i.value and b.deleted_by is null order by b.id desc limit :each))
join memory_entities as f on f.id = r.from_id
join memory_entities as t on t.id = r.to_id
order by r.id desc
