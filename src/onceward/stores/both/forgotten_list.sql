-- List what is kept for the undoing of a seek, first forgotten first.
select position, sequence, key, alone, id, raw is not null
from onceward_forgotten where history_id = :history order by id
