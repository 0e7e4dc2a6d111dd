-- Let the relations be there again that a change deleted, unless one of their ends is not there:
-- then they are deleted as long as that end is.
update memory_relations
set deleted_by = coalesce(
  (select e.deleted_by from memory_entities as e where e.id = memory_relations.from_id),
  (select e.deleted_by from memory_entities as e where e.id = memory_relations.to_id))
where deleted_by = :change
returning id, deleted_by, from_id
