-- Find a change, and the entity it is about.
select c.action, c.entity_id, c.observation_id, c.relation_id, e.name, e.deleted_by
from memory_changes as c
join memory_entities as e on e.id = c.entity_id
where c.id = :change
