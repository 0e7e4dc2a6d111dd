-- Read how far a group is processed and whether a batch of it is in flight.
select g.processed_position, b.number
from onceward_dual_groups as g
left join onceward_dual_batches as b on b.dual_name = g.dual_name and b.group_name = g.group_name
where g.dual_name = :dual and g.group_name = :group
