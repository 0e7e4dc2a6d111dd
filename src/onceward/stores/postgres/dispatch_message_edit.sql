-- Change the text of a message that is there.
update dispatch_messages
set sender = :sender, body = :body, sent_at = :sent_at, changed_seq = :changed_seq, edited_at = onceward_now()
where channel = :channel and group_name = :group and id = :id
