-- Count the alerts that fire now, kind by kind.
select kind, count(*) from onceward_alerts where state <> 'cleared' and state = 'firing' group by kind
