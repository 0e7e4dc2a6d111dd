-- Note what a person decided about a dead letter.
update dispatch_deliveries set state = :state, ended_at = onceward_now() where id = :id and state = 'dead'
returning id
