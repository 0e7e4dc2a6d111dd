-- Give a parked message another place in its key's line.
update onceward_parked set sequence = :sequence where cursor_name = :cursor and position = :position
