-- Read an entity by its name, living or not, and what has deleted it, if anything.
select e.id, e.name, e.entity_type, e.source, e.run, e.created_at, e.deleted_by
from memory_entities as e
where e.name = :name
