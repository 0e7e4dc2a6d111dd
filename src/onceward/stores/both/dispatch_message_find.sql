-- Read a message by its id, so that a redelivery is recognised.
select seq, sender, body, sent_at from dispatch_messages
where channel = :channel and group_name = :group and id = :id
