-- Return the last of the next entries after a number, how many they are, and how many of them are old.
select max(id), count(*), count(case when happened_at < (select onceward_now()) - make_interval(secs => :seconds::float8) then 1 end)
from (select id, happened_at from cursor_history where id > :after order by id limit :limit) as following
