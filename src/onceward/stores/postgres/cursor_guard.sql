-- Keep the lease with its holder until the transaction ends; raises OW001 if it is lost already.
select :epoch::bigint
from onceward_cursor_guard(:name::text, :worker::text, :epoch::bigint)
