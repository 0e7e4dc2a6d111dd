-- Tell that a worker is alive; the first time, and after it was forgotten, what it is.
insert into onceward_workers
  (worker, host, pid, started_at, seen_at, seen_seconds, seen_boot, consumers, version)
values (:worker, :host, :pid, :wall, :wall, :now, :boot, :consumers, :version)
on conflict (worker) do update set
  seen_at = excluded.seen_at,
  seen_seconds = excluded.seen_seconds,
  seen_boot = excluded.seen_boot
