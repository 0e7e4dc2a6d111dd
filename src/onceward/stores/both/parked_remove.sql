-- Remove a parked message as it was when it was read; no row when somebody moved it on since.
delete from onceward_parked where id = :id and attempt = :attempt and is_head
returning sequence
