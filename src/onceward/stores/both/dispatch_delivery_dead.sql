-- Let a delivery that was rolled back be a dead letter: it is handed out no more.
update dispatch_deliveries set state = 'dead', last_seq = :last_seq where id = :id and state = 'rolled back'
