-- Note that output went out: what was handed over up to here is not rolled back any more.
update onceward_dual_batches set output_position = max(ifnull(output_position, 0), :position)
where dual_name = :dual and group_name = :group and number = :number
