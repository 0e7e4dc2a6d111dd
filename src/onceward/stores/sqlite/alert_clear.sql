-- End an alert that fired.
update onceward_alerts set state = 'cleared', cleared_at = :wall where id = :id and state = 'firing'
