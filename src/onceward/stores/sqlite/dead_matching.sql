-- List the letters that are dead and fit, oldest first.
select id from onceward_dead
where state = 'dead' and (:cursor is null or cursor_name = :cursor) and (:key is null or key = :key)
  and (:since is null or dead_at >= :since)
order by id limit :limit
