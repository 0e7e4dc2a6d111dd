-- Say which cursor a dead letter belongs to.
select cursor_name from onceward_dead where id = :id
