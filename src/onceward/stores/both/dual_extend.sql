-- Let the batch in flight reach further: more messages were handed to the same run.
update onceward_dual_batches set position = :position, items = :items
where dual_name = :dual and group_name = :group and number = :number
