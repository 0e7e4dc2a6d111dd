-- Note what a person decided about a dead letter.
update dispatch_deliveries set state = :state, ended_at = :wall where id = :id and state = 'dead'
returning id
