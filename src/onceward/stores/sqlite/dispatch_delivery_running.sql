-- List the deliveries whose end is not known.
select id, group_name, batch_number, state, attempt, first_seq, last_seq, agent, error, started_at, ended_at from dispatch_deliveries where state = 'running' order by id
