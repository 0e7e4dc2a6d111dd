-- List the heads of a cursor that are due, in the order of parking: at the due time not yet, then yes.
select id, position, sequence, key, alone, raw, attempt, due_at, failures::text, first_failed_at, parked_at
from onceward_parked
where cursor_name = :cursor and is_head and (due_at is null or due_at < (select onceward_now()))
order by sequence limit :limit
