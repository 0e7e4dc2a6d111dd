-- Return where a cursor is and who holds it; the writer's lock keeps it so.
select cursor_name, last_position, lease_owner
from cursor_positions where cursor_name = :name
