-- Delete all relations that begin or end at an entity, by the change that deletes the entity.
update memory_relations
set deleted_by = :change
where id in (
    select id from memory_relations where from_id = :id
    union
    select id from memory_relations where to_id = :id)
  and deleted_by is null
returning id
