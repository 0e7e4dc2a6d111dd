-- Note the number of a group's latest arrival.
insert into onceward_dual_groups as g (dual_name, group_name, last_arrived, updated_at)
values (:dual, :group, :position, onceward_now())
on conflict (dual_name, group_name) do update set last_arrived = excluded.last_arrived
