-- Note that the dispatcher has looked at a group.
update dispatch_groups set is_nudged = 0 where name = :name and is_nudged = 1
