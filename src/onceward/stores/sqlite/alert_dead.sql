-- Count the letters of each cursor that died in the last so many seconds and are still dead.
select cursor_name, count(*)
-- Else SQLite reads every dead letter: it cannot know that few died lately.
from onceward_dead indexed by onceward_dead_lately
where state = 'dead' and dead_at > strftime('%Y-%m-%dT%H:%M:%fZ', :wall, '-' || :window || ' seconds')
group by cursor_name
