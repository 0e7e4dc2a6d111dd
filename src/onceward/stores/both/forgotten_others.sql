-- List what is kept for the undoing of a cursor's other seeks, first forgotten first.
select position, sequence, key, alone, id, raw is not null
from onceward_forgotten where cursor_name = :cursor and history_id <> :history order by id
