-- Find the first message of a group that came at a moment or later.
select seq from dispatch_messages where group_name = :group and received_at >= :since order by seq limit 1
