-- Read living entities, the newest first, below one of them.
select e.id, e.name, e.entity_type, e.source, e.run, e.created_at
from memory_entities as e
where e.id < :before and e.deleted_by is null
order by e.id desc
limit :limit
