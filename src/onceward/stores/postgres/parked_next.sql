-- Say in how many seconds the next head of a cursor is due; null when nothing is parked.
select case
  when (select 1 from onceward_parked where cursor_name = :cursor and is_head and due_at is null limit 1) is not null
    then 0.0::float8
  else extract(epoch from
    (select min(due_at) from onceward_parked where cursor_name = :cursor and is_head) - onceward_now())::float8
end
