-- List the groups with what was read and not processed, or with a batch in flight; longest waiting first.
with groups as (
  select group_name, max(processed_position) as processed_position, max(last_arrived) as last_arrived
  from (
    select group_name, processed_position, null as last_arrived
    from onceward_dual_groups where dual_name = :dual
    union all
    select group_name, 0, last_arrived
    from onceward_dual_arrivals where dual_name = :dual
  ) as known
  group by group_name
)
select g.group_name, g.processed_position, coalesce(r.read_position, 0), b.number
from groups as g
left join onceward_dual_reads as r on r.dual_name = :dual
left join onceward_dual_batches as b on b.dual_name = :dual and b.group_name = g.group_name
where b.number is not null or (
  g.processed_position < coalesce(r.read_position, 0)
  and g.processed_position < coalesce(g.last_arrived, g.processed_position + 1))
order by g.processed_position, g.group_name
