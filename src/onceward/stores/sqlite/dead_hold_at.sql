-- Return the letters of these positions; the transaction has the write lock already, so they do not change.
select id from onceward_dead
where cursor_name = :cursor and position in (select value from json_each(:positions))
