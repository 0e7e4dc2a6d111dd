-- Let the dispatcher look at a group, though nothing has arrived.
update dispatch_groups set is_nudged = true where name = :name
