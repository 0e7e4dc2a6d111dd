-- Let the dispatcher look at a group, though nothing has arrived.
update dispatch_groups set is_nudged = 1 where name = :name
