-- Note that an entity was merged into another.
insert into memory_merges (merge, source_id, target_id, change_id, added, created_at)
values (:merge, :source, :target, :change, :added, :wall)
returning id
