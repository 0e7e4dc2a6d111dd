-- Drop letters that have been dead for long and that no operator has decided about, a few at a time.
update onceward_dead set state = 'dropped', changed_at = onceward_now(), changed_by = :actor, reason = :reason
where id in (
  select id from onceward_dead
  where state = 'dead' and dead_at < (select onceward_now()) - make_interval(secs => :seconds::float8)
  order by dead_at limit :limit for update skip locked
)
returning 1
