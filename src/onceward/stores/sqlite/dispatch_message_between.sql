-- Read the messages of a group behind one place and up to another, in the order of arrival.
select m.seq, m.changed_seq, m.channel, m.group_name, m.id, m.sender, m.body, m.sent_at, m.received_at, m.edited_at from dispatch_messages as m
where m.group_name = :group and m.seq > :after and m.seq <= :upto
order by m.seq limit :limit
