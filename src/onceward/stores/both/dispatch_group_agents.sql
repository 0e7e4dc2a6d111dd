-- List the processes that were agents of groups.
select name, agent from dispatch_groups where agent is not null
