-- Record a batch as in flight, with the position to go back to.
insert into onceward_dual_batches (dual_name, group_name, number, previous_position, position, items, started_at)
values (:dual, :group, :number, :previous, :position, :items, :wall)
