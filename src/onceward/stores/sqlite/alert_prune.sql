-- Remove alerts that were over so many days ago, whoever was told.
delete from onceward_alerts
where state = 'cleared' and cleared_at < strftime('%Y-%m-%dT%H:%M:%fZ', :wall, '-' || :days || ' days')
