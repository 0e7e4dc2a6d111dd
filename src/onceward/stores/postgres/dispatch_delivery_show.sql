-- Read a delivery.
select id, group_name, batch_number, state, attempt, first_seq, last_seq, agent, error, onceward_time_text(started_at), onceward_time_text(ended_at) from dispatch_deliveries where id = :id
