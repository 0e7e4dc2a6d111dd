-- Count what is parked for a cursor, and say in how many seconds the next head is due.
select count(*), count(distinct case when alone then null else key end),
  min(case when not is_head then null when due_at is null then 0.0
           else extract(epoch from due_at - onceward_now())::float8 end)
from onceward_parked where cursor_name = :cursor
