-- Remove samples of long ago, and of a clock that was far ahead, a few at a time.
delete from onceward_samples where (cursor_name, taken_at) in (
  select * from (
    select cursor_name, taken_at from onceward_samples
    where taken_at < (select onceward_now()) - make_interval(secs => :seconds::float8)
    order by taken_at limit :limit for update skip locked
  ) as old
  union all
  select * from (
    select cursor_name, taken_at from onceward_samples
    where taken_at > (select onceward_now()) + make_interval(secs => :ahead::float8)
    order by taken_at limit :limit for update skip locked
  ) as ahead
)
returning 1
