-- List the cursors that have a head whose time has come.
select distinct cursor_name
from onceward_parked
where is_head and (due_at is null or due_at < (select onceward_now()))
order by cursor_name
