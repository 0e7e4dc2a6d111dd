-- Forget the attempts of a position: it succeeded, or is a dead letter now.
delete from onceward_attempts where cursor_name = :cursor and position = :position
