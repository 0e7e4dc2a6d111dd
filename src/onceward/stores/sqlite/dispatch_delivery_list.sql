-- List what was handed out for a group, the newest first.
select id, group_name, batch_number, state, attempt, first_seq, last_seq, agent, error, started_at, ended_at from dispatch_deliveries where group_name = :group order by batch_number desc limit :limit
