-- Read a group's state; nobody else changes it before this transaction ends.
insert into onceward_dual_groups as g (dual_name, group_name, updated_at) values (:dual, :group, :wall)
on conflict (dual_name, group_name) do update set updated_at = excluded.updated_at
returning processed_position, last_batch
