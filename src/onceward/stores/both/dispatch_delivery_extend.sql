-- Note that more messages were handed to the same agent.
update dispatch_deliveries set last_seq = :last_seq where id = :id and state = 'running'
