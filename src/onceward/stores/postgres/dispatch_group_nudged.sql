-- List the groups that the dispatcher should look at.
select name from dispatch_groups where is_nudged order by name
