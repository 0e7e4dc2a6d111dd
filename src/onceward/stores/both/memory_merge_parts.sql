-- Count what an entity has that is not deleted: observations and relations.
select
  (select count(*) from memory_observations where entity_id = :id and deleted_by is null)
  + (select count(*) from memory_relations where from_id = :id and deleted_by is null)
  + (select count(*) from memory_relations where to_id = :id and deleted_by is null)
