-- Count the letters that are dead now, cursor by cursor, and say since when there are any.
select cursor_name, count(*), onceward_time_text(min(dead_at))
from onceward_dead where state = 'dead'
group by cursor_name order by cursor_name
