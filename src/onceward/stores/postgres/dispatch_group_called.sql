-- Note the latest message that calls a group's agent.
update dispatch_groups set called_seq = greatest(called_seq, :seq) where name = :name
