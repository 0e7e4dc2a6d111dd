-- Read the deletions of an entity and its parts that something still carries, the newest first.
select c.id
from memory_entities as e
join memory_changes as c on c.entity_id = e.id and c.action = 'deleted'
where e.name = :name and (
  exists (select 1 from memory_observations as o where o.deleted_by = c.id)
  or exists (select 1 from memory_relations as r where r.deleted_by = c.id))
order by c.id desc
limit :limit
