-- Remove parked messages, whatever became of them.
delete from onceward_parked where cursor_name = :cursor
  and position in (select jsonb_array_elements_text(:positions::jsonb))
