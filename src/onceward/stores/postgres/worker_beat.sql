-- Tell that a worker is alive; the first time, and after it was forgotten, what it is.
insert into onceward_workers (worker, host, pid, started_at, seen_at, consumers, version)
select :worker, :host, :pid, moment, moment, :consumers, :version from (select onceward_now() as moment) as now
on conflict (worker) do update set seen_at = excluded.seen_at
