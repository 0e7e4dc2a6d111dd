-- Find an entity and the other ends of what a change took from it; nobody else touches them until this is over.
select id, name, entity_type, deleted_by
from memory_entities
where id in (
  select :id
  union
  select from_id from memory_relations where deleted_by = :change
  union
  select to_id from memory_relations where deleted_by = :change)
