-- Remove the attempts of several positions.
delete from onceward_attempts where cursor_name = :cursor
  and position in (select jsonb_array_elements_text(:positions::jsonb))
