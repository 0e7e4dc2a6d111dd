-- List the worker processes, whoever was seen last first, and how many seconds ago that was.
select worker, host, pid, started_at, seen_at,
  max(0.0, case when seen_boot = :boot then :now - seen_seconds
    else (julianday(:wall) - julianday(seen_at)) * 86400.0 end),
  stopped_at, consumers, version
from onceward_workers
order by seen_at desc limit :limit
