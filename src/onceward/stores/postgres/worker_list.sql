-- List the worker processes, whoever was seen last first, and how many seconds ago that was.
select worker, host, pid, onceward_time_text(started_at), onceward_time_text(seen_at),
  greatest(0, extract(epoch from onceward_now() - seen_at))::float8,
  onceward_time_text(stopped_at), consumers, version
from onceward_workers
order by seen_at desc limit :limit
