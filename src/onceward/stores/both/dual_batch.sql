-- Read the batch that a group has in flight.
select group_name, number, previous_position, position, output_position, items, started_at
from onceward_dual_batches where dual_name = :dual and group_name = :group
