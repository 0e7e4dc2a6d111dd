-- Note the latest message that calls a group's agent.
update dispatch_groups set called_seq = max(called_seq, :seq) where name = :name
