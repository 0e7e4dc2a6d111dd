-- Read living entities whose names lie in a range, by name, behind one of them.
select e.id, e.name, e.entity_type, e.source, e.run, e.created_at
from memory_entities as e
where e.name >= :low and e.name < :high and e.name > :after and e.deleted_by is null
order by e.name
limit :limit
