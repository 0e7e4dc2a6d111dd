-- Forget workers that were not seen for long, a few at a time.
delete from onceward_workers where worker in (
  select worker from onceward_workers
  where seen_at < (select onceward_now()) - make_interval(secs => :seconds::float8)
  order by seen_at limit :limit for update skip locked
)
returning 1
