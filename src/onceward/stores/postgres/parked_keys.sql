-- Count what is parked, line by line: by cursor and key, and what waits alone by cursor.
select cursor_name, case when alone then null else key end as line, count(*),
  onceward_time_text(min(coalesce(first_failed_at, parked_at))) as since, max(attempt)
from onceward_parked
group by cursor_name, line
order by since, cursor_name, line limit :limit
