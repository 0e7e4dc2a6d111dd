-- Read living entities whose names lie in a range, the newest first.
select e.id, e.name, e.entity_type, e.source, e.run, e.created_at
from memory_entities as e
where e.name >= :low and e.name < :high and e.deleted_by is null
order by e.id desc
limit :limit
