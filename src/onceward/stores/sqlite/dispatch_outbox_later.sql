-- Let a saying that could not be sent wait for its next try; its state says whether people may have seen it.
update dispatch_outbox set state = :state, error = :error, retry_at = strftime('%Y-%m-%dT%H:%M:%fZ', julianday(:wall) + :seconds / 86400.0) where id = :id and state = 'sending' and attempt_count = :attempts
