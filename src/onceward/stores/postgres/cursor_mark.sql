-- Let whoever takes a cursor over find this transaction, and end it; raises OW001 if it is lost already.
select :epoch::bigint
from onceward_cursor_mark(:name::text, :worker::text, :epoch::bigint)
