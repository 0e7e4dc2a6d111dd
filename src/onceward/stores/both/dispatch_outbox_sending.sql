-- Say that a saying is about to go out; from now on people may have seen it.
update dispatch_outbox set state = 'sending', attempt_count = attempt_count + 1, retry_at = null
where id = :id and state in ('pending', 'sending') and attempt_count = :attempts
returning attempt_count
