-- Note what became of a delivery.
update dispatch_deliveries
set state = :state, last_seq = :last_seq, error = :error, ended_at = onceward_now()
where id = :id and state = 'running'
