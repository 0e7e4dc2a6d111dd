-- Remove parked messages, whatever became of them.
delete from onceward_parked where cursor_name = :cursor
  and position in (select value from json_each(:positions))
