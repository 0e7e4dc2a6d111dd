-- Find an entity by its name, and what has deleted it, if anything.
select id, deleted_by from memory_entities where name = :name
