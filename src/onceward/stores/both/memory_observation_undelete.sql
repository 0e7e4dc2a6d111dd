-- Let the observations be there again that a change deleted.
update memory_observations
set deleted_by = null
where deleted_by = :change
returning id, entity_id, content
