-- Remove a parked message, whatever became of it.
delete from onceward_parked where id = :id
