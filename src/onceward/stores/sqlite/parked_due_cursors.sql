-- List the cursors that have a head whose time has come.
select distinct cursor_name
from onceward_parked
where is_head and (due_at is null or
  case when due_boot = :boot then due_seconds - :now
       else (julianday(due_at) - julianday(:wall)) * 86400.0 end < 0)
order by cursor_name
