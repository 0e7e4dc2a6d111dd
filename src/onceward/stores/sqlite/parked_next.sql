-- Say in how many seconds the next head of a cursor is due; null when nothing is parked.
select min(case when due_at is null then 0.0
                when due_boot = :boot then due_seconds - :now
                else (julianday(due_at) - julianday(:wall)) * 86400.0 end)
from onceward_parked where cursor_name = :cursor and is_head
