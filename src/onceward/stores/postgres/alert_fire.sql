-- Let an alert that was pending fire.
update onceward_alerts
set state = 'firing', value = :value, threshold = :threshold, fired_at = onceward_now()
where id = :id and state = 'pending'
