-- Count what the graph holds, and what was deleted.
select
  (select count(*) from memory_entities where deleted_by is null),
  (select count(*) from memory_observations where deleted_by is null),
  (select count(*) from memory_relations where deleted_by is null),
  (select count(*) from memory_entities where deleted_by is not null)
    + (select count(*) from memory_observations where deleted_by is not null)
    + (select count(*) from memory_relations where deleted_by is not null)
