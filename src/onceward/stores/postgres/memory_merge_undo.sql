-- Note that a part of a merge is undone.
update memory_merges set undone_at = onceward_now() where id = :id returning id
