-- End an alert that fired.
update onceward_alerts set state = 'cleared', cleared_at = onceward_now() where id = :id and state = 'firing'
