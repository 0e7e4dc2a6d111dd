-- Say that a saying has gone out, and give it its place in the conversation.
update dispatch_outbox set state = 'sent', seq = :seq, error = null, sent_at = :wall
where id = :id and state = 'sending'
returning id
