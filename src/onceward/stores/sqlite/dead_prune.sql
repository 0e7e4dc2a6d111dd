-- Remove letters that were redriven or dropped long ago, a few at a time.
delete from onceward_dead where id in (
  select id from onceward_dead
  where state <> 'dead' and changed_at < strftime('%Y-%m-%dT%H:%M:%fZ', :wall, -:seconds || ' seconds')
  order by changed_at limit :limit
)
returning 1
