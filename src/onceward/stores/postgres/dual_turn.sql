-- Read a group's state; nobody else changes it before this transaction ends.
insert into onceward_dual_groups as g (dual_name, group_name, updated_at) values (:dual, :group, onceward_now())
on conflict (dual_name, group_name) do update set updated_at = excluded.updated_at
returning g.processed_position, g.last_batch
