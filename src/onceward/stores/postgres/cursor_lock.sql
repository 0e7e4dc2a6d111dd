-- Lock a cursor against its guards, and return where it is and who holds it; nulls if there is none.
select cursor_name, last_position, lease_owner
from onceward_cursor_lock(:name::text)
