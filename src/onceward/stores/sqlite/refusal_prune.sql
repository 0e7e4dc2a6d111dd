-- Remove refusals of long ago, a few at a time.
delete from onceward_refusals where id in (
  select id from (select id, happened_at from onceward_refusals order by id limit :limit)
  where happened_at < strftime('%Y-%m-%dT%H:%M:%fZ', :wall, -:seconds || ' seconds')
    or id <= (select max(id) from onceward_refusals) - :most
)
returning 1
