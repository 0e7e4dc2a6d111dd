-- Count the take-overs of each cursor in the last so many seconds.
select cursor_name, count(*)
from cursor_history
where kind = 'steal' and not starts_with(cursor_name, '~')
  and happened_at > (select onceward_now()) - make_interval(secs => :window::float8)
group by cursor_name
