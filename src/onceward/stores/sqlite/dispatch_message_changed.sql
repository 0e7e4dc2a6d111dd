-- Read what people said in a group, or changed, behind a place.
select m.seq, m.changed_seq, m.channel, m.group_name, m.id, m.sender, m.body, m.sent_at, m.received_at, m.edited_at from dispatch_messages as m
where m.group_name = :group and m.changed_seq > :after and m.changed_seq <= :upto
order by m.changed_seq limit :limit
