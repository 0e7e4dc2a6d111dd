-- Forget an alert that never fired.
delete from onceward_alerts where id = :id and state = 'pending'
