-- Let a saying that could not be sent wait for its next try; its state says whether people may have seen it.
update dispatch_outbox set state = :state, error = :error, retry_at = onceward_now() + make_interval(secs => :seconds) where id = :id and state = 'sending' and attempt_count = :attempts
