-- Say that a saying has gone out, and give it its place in the conversation.
update dispatch_outbox set state = 'sent', seq = :seq, error = null, sent_at = onceward_now()
where id = :id and state = 'sending'
returning id
