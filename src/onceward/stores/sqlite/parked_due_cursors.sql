-- List the cursors that have a head whose time has come.
-- From boot to boot by the index: each has a clock of its own.
with recursive boots (name, boot) as (
  select name, (select min(due_boot) from onceward_parked where cursor_name = name and is_head)
  from onceward_counts where kind = 'parked'
  union all
  select name, (
    select min(due_boot) from onceward_parked where cursor_name = name and is_head and due_boot > boots.boot)
  from boots where boots.boot is not null
)
select distinct name
from boots
where case
  when boot is null then
    exists (select 1 from onceward_parked where cursor_name = name and is_head and due_boot is null)
  when boot = :boot then
    exists (select 1 from onceward_parked
      where cursor_name = name and is_head and due_boot = boots.boot and due_seconds < :now)
  else
    exists (select 1 from onceward_parked
      where cursor_name = name and is_head and due_boot = boots.boot and due_at < :wall)
end
order by name
