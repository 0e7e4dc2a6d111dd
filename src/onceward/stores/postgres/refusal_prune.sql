-- Remove refusals of long ago, a few at a time.
delete from onceward_refusals where id in (
  select id from (
    select id, happened_at from onceward_refusals order by id limit :limit for update skip locked
  ) as oldest
  where happened_at < onceward_now() - make_interval(secs => :seconds::float8)
    or id <= (select max(id) from onceward_refusals) - :most
)
returning 1
