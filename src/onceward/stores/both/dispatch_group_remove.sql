-- Remove a group; what was said in it stays.
delete from dispatch_groups where name = :name returning name
