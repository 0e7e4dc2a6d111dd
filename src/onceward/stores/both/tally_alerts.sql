-- Count the alerts that fire now.
select count(*) from onceward_alerts where state <> 'cleared' and state = 'firing'
