-- Note that messages are handed to an agent.
insert into dispatch_deliveries (
  group_name, batch_number, state, attempt, first_seq, last_seq, started_at)
values (:group, :number, 'running', :attempt, :first_seq, :last_seq, onceward_now())
returning id
