-- List the deliveries whose end is not known.
select id, group_name, batch_number, state, attempt, first_seq, last_seq, agent, error, started_at, ended_at from dispatch_deliveries where state = 'running'
-- With a plus: not by the index that has them in this order, and every one of the past.
order by +id
