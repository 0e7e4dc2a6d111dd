-- The boots in which the heads of a cursor were scheduled, from one to the next by the index, and null at the end.
with recursive boots (boot) as (
  select min(due_boot) from onceward_parked where cursor_name = :cursor and is_head
  union all
  select (
    select min(due_boot) from onceward_parked
    where cursor_name = :cursor and is_head and due_boot > boots.boot)
  from boots where boots.boot is not null
)
