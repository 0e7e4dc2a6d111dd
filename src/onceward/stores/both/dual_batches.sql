-- List the batches in flight, oldest message first.
select group_name, number, previous_position, position, output_position, items, started_at
from onceward_dual_batches where dual_name = :dual order by previous_position, group_name
