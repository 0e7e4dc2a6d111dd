-- Find the entities that were merged into one, and still are.
select source_id from memory_merges where target_id = :id and undone_at is null order by id
