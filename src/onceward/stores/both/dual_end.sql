-- End the batch in flight.
delete from onceward_dual_batches where dual_name = :dual and group_name = :group and number = :number
