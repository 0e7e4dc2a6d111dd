-- Note that an entity was merged into another.
insert into memory_merges (merge, source_id, target_id, change_id, added, created_at)
values (:merge::bigint, :source::bigint, :target::bigint, :change::bigint, :added::text, onceward_now())
returning id
