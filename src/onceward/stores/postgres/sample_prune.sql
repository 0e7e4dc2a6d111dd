-- Remove samples of long ago, a few at a time.
delete from onceward_samples where (cursor_name, taken_at) in (
  select cursor_name, taken_at from onceward_samples
  where taken_at < (select onceward_now()) - make_interval(secs => :seconds::float8)
  order by taken_at limit :limit for update skip locked
)
returning 1
