-- Remove alerts that were over so many days ago, whoever was told.
delete from onceward_alerts
where state = 'cleared' and cleared_at < (select onceward_now()) - make_interval(days => :days::int)
