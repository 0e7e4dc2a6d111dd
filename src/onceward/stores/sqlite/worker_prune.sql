-- Forget workers that were not seen for long, a few at a time.
delete from onceward_workers where worker in (
  select worker from onceward_workers
  where seen_at < strftime('%Y-%m-%dT%H:%M:%fZ', :wall, -:seconds || ' seconds')
  order by seen_at limit :limit
)
returning 1
