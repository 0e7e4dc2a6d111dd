-- Let an entity be there again, if it was this change that deleted it.
update memory_entities
set deleted_by = null
where id = :id and deleted_by = :change
returning id
