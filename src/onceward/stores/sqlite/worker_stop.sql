-- Tell that a worker ended, and does not come back.
update onceward_workers set
  stopped_at = :wall, seen_at = :wall, seen_seconds = :now, seen_boot = :boot
where worker = :worker
