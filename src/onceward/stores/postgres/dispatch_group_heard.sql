-- Note that the dispatcher has looked at a group.
update dispatch_groups set is_nudged = false where name = :name and is_nudged
