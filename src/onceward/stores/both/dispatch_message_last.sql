-- Read the place of the last message of a group, at or before another.
select seq from dispatch_messages where group_name = :group and seq <= :upto order by seq desc limit 1
