-- Return what is another when an alert began, fired or ended.
select (select count(*) from onceward_alerts where state <> 'cleared'),
  (select count(*) from onceward_alerts where state <> 'cleared' and state = 'firing'),
  (select max(coalesce(fired_at, pending_at))::text from onceward_alerts where state <> 'cleared'),
  (select max(cleared_at)::text from onceward_alerts where state = 'cleared')
