-- Lock the letters of these positions, in the order of `dead_hold`, before the first of them is written again.
select id from onceward_dead
where cursor_name = :cursor and position in (select jsonb_array_elements_text(:positions::jsonb))
order by cursor_name, id
for update
