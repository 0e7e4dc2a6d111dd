-- List what is parked for a cursor, in the order of parking.
select position, sequence, key, alone from onceward_parked where cursor_name = :cursor order by sequence
