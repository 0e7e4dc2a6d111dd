-- Read the deletions of a whole entity that parts of it still carry, the newest first.
select c.id
from memory_entities as e
join memory_changes as c on c.entity_id = e.id
where e.name = :name and c.action = 'deleted' and c.observation_id is null and c.relation_id is null and (
  exists (select 1 from memory_observations as o where o.deleted_by = c.id)
  or exists (select 1 from memory_relations as r where r.deleted_by = c.id))
order by c.id desc
limit :limit
