-- Count the letters of each cursor that died in the last so many seconds and are still dead.
select cursor_name, count(*)
from onceward_dead
where state = 'dead' and dead_at > strftime('%Y-%m-%dT%H:%M:%fZ', :wall, '-' || :window || ' seconds')
group by cursor_name
