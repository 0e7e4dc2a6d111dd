-- Let an alert that was pending fire.
update onceward_alerts
set state = 'firing', value = :value, threshold = :threshold, fired_at = :wall
where id = :id and state = 'pending'
