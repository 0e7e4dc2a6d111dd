-- Remove the grants that ended longest ago, a few at a time, if that is long ago or there are too many behind them.
delete from onceward_grants where id in (
  select id from (
    select id, ended_at from onceward_grants where ended_at is not null order by ended_at limit :limit
    for update skip locked
  ) as oldest
  where ended_at < onceward_now() - make_interval(secs => :seconds::float8)
    or id <= (select max(id) from onceward_grants) - :most
)
returning 1
