-- Read the last merges that can be undone: number, time, how many names.
select coalesce(merge, id), onceward_time_text(min(created_at)), count(*)
from memory_merges
where undone_at is null
group by coalesce(merge, id)
order by 1 desc
limit :limit
