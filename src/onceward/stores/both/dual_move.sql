-- Move a group's processed cursor, onward or back.
update onceward_dual_groups set processed_position = :position, last_batch = :number
where dual_name = :dual and group_name = :group
