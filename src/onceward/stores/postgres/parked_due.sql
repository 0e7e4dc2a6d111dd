-- List heads of a cursor that are due, the first to be due first, in the order of parking.
-- At the due time not yet, then yes.
select id, position, sequence, key, alone, raw, attempt, due_at, failures::text, first_failed_at, parked_at
from (
  (select * from onceward_parked where cursor_name = :cursor and is_head and due_at is null
    order by due_at nulls first, sequence limit :limit)
  union all
  (select * from onceward_parked where cursor_name = :cursor and is_head and due_at < (select onceward_now())
    order by due_at nulls first, sequence limit :limit)
) as due
order by sequence limit :limit
