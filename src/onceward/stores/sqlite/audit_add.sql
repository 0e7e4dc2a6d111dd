-- Record an action of the console; what was done under a key is recorded once.
insert into onceward_audit (happened_at, actor, via, action, target, request_id, outcome, details, result)
values (:wall, :actor, :via, :action, :target, :request_id, :outcome, :details, :result)
on conflict (request_id) where outcome = 'done' do nothing
