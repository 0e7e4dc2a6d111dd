-- Note that output went out: what was handed over so far is not rolled back any more.
update onceward_dual_batches set output_position = position
where dual_name = :dual and group_name = :group and number = :number
