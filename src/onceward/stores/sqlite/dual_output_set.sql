-- Say anew how far output went out: some of it turned out to have reached nobody.
update onceward_dual_batches set output_position = :position
where dual_name = :dual and group_name = :group and number = :number
