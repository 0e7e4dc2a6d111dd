-- List the groups with what was read and not processed, or with a batch in flight; longest waiting first.
select g.group_name, g.processed_position, coalesce(r.read_position, 0), b.number
from onceward_dual_groups as g
left join onceward_dual_reads as r on r.dual_name = g.dual_name
left join onceward_dual_batches as b on b.dual_name = g.dual_name and b.group_name = g.group_name
where g.dual_name = :dual and (b.number is not null or (
  g.processed_position < coalesce(r.read_position, 0)
  and g.processed_position < coalesce(g.last_arrived, g.processed_position + 1)))
order by g.processed_position, g.group_name
