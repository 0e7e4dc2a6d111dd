-- Return what is another when the memory took or lost something.
select (select max(id) from memory_entities), (select max(id) from memory_observations),
  (select max(id) from memory_relations), (select max(id) from memory_changes)
