-- Count the letters of each cursor that died in the last so many seconds and are still dead.
select cursor_name, count(*)
from onceward_dead
where state = 'dead' and dead_at > (select onceward_now()) - make_interval(secs => :window::float8)
group by cursor_name
