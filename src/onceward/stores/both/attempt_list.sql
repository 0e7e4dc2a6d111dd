-- List the failing positions of a cursor, in the order in which they failed first.
select position, sequence from onceward_attempts where cursor_name = :cursor order by sequence
