-- Add a message that arrives; its id decides whether it is new.
insert into dispatch_messages (channel, group_name, id, seq, changed_seq, sender, body, sent_at, received_at)
values (:channel, :group, :id, :seq, :seq, :sender, :body, :sent_at, :wall)
on conflict (channel, group_name, id) do nothing
returning seq
