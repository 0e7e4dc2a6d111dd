-- Note the number of a group's latest arrival; only while the counter is locked, so nobody else is at it.
insert into onceward_dual_arrivals (dual_name, group_name, last_arrived) values (:dual, :group, :position)
on conflict (dual_name, group_name) do update set last_arrived = excluded.last_arrived
