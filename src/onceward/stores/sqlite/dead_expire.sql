-- Drop letters that have been dead for long and that no operator has decided about, a few at a time.
update onceward_dead set state = 'dropped', changed_at = :wall, changed_by = :actor, reason = :reason
where id in (
  select id from onceward_dead indexed by onceward_dead_lately
  where state = 'dead' and dead_at < strftime('%Y-%m-%dT%H:%M:%fZ', :wall, -:seconds || ' seconds')
  order by dead_at limit :limit
)
returning 1
