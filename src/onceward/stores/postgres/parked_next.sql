-- Say in how many seconds the next head of a cursor is due; null when nothing is parked.
select min(case when due_at is null then 0.0
                else extract(epoch from due_at - onceward_now())::float8 end)
from onceward_parked where cursor_name = :cursor and is_head
