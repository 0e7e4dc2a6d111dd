-- Count what is parked now, cursor by cursor.
select cursor_name, count(*) from onceward_parked group by cursor_name order by cursor_name
