-- List heads of a cursor that are due, the first to be due first, in the order of parking.
-- At the due time not yet, then yes.
{{ parked_boots }},
due (id) as (
  select id from (
    select id from onceward_parked where cursor_name = :cursor and is_head and due_boot is null limit :limit)
  union all
  select id from (
    select id from onceward_parked
    where cursor_name = :cursor and is_head and due_boot = :boot and due_seconds < :now
    order by due_seconds limit :limit)
  union all
  select id from (
    select other.id from boots cross join onceward_parked as other
    where boots.boot <> :boot and other.cursor_name = :cursor and other.is_head
      and other.due_boot = boots.boot and other.due_at < :wall
    limit :limit)
)
select id, position, sequence, key, alone, raw, attempt, due_at, failures, first_failed_at, parked_at
from onceward_parked
where id in (select id from due)
order by sequence limit :limit
