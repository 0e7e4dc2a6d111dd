-- List the letters that are dead and fit, oldest first.
select id from onceward_dead
where state = 'dead' and (:cursor::text is null or cursor_name = :cursor) and (:key::text is null or key = :key)
  and (:since::timestamptz is null or dead_at >= :since::timestamptz)
order by id limit :limit
