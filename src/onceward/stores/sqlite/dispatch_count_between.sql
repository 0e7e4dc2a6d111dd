-- Count the messages of a group behind one place and up to another.
select count(*) from dispatch_messages where group_name = :group and seq > :after and seq <= :upto
