-- Read the living relations that begin at one of these entities, the newest first.
select o.id, f.name, t.name, o.relation_type, o.source, o.run, o.created_at
from memory_relations as o
join memory_entities as f on f.id = o.from_id
join memory_entities as t on t.id = o.to_id
where o.id in (
  select id from memory_relations where from_id in (select value from json_each(:ids))) and o.deleted_by is null
order by o.id desc
limit :limit
