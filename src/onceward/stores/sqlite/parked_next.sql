-- Say in how many seconds the next head of a cursor is due; null when nothing is parked.
{{ parked_boots }}
select min(case
  when boot is null then
    (select 0.0 from onceward_parked where cursor_name = :cursor and is_head and due_boot is null limit 1)
  when boot = :boot then
    (select min(due_seconds) from onceward_parked
      where cursor_name = :cursor and is_head and due_boot = boots.boot) - :now
  else
    (julianday((select min(due_at) from onceward_parked
      where cursor_name = :cursor and is_head and due_boot = boots.boot)) - julianday(:wall)) * 86400.0
end)
from boots
