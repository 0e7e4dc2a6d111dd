-- Remove letters that were redriven or dropped long ago, a few at a time.
delete from onceward_dead where id in (
  select id from onceward_dead
  where state <> 'dead' and changed_at < (select onceward_now()) - make_interval(secs => :seconds::float8)
  order by changed_at limit :limit for update skip locked
)
returning 1
