-- Say how sending ended otherwise: nobody knows, or the channel refused it.
update dispatch_outbox set state = :state, error = :error, seq = :seq
where id = :id and state = 'sending' and attempt_count = :attempts
returning id
