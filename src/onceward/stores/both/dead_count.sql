-- Count the letters that are dead now, cursor by cursor.
select cursor_name, count(*) from onceward_dead where state = 'dead' group by cursor_name order by cursor_name
