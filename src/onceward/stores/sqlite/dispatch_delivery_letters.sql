-- List dead letters, the oldest first, behind one of them.
select id, group_name, batch_number, state, attempt, first_seq, last_seq, agent, error, started_at, ended_at from dispatch_deliveries where state = 'dead' and id > :after order by id limit :limit
