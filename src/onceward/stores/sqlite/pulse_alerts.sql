-- Return what is another when an alert began, fired or ended.
select state, count(*), max(coalesce(cleared_at, fired_at, pending_at)) from onceward_alerts group by state order by state
