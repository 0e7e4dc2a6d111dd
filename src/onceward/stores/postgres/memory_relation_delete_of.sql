-- Delete all relations that begin or end at an entity, by the change that deletes the entity.
update memory_relations as o
set deleted_by = :change
where o.id in (
    select id from memory_relations where from_id = :id
    union
    select id from memory_relations where to_id = :id)
  and o.deleted_by is null
returning o.id
