-- Record an action of the console; one that may be run again under its key is recorded once.
insert into onceward_audit (happened_at, actor, via, action, target, request_id, outcome, details, result)
select :wall, :actor, :via, :action, :target, :request_id, :outcome, :details, :result
where not :is_repeatable or not exists (
  select 1 from onceward_audit
  where request_id = :request_id and action = :action and target = :target and outcome = 'done'
)
