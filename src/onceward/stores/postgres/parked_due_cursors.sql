-- List the cursors that have a head whose time has come.
select counted.name
from onceward_counts as counted
where counted.kind = 'parked' and (
  (select 1 from onceward_parked where cursor_name = counted.name and is_head and due_at is null limit 1) is not null
  or (select 1 from onceward_parked
    where cursor_name = counted.name and is_head and due_at < (select onceward_now()) limit 1) is not null
)
order by counted.name
