-- Make the earliest message of a key its head; one that was never tried is due at once.
update onceward_parked set is_head = true
where cursor_name = :cursor and key = :key and not alone and not is_head
  and sequence = (select min(o.sequence) from onceward_parked as o
    where o.cursor_name = :cursor and o.key = :key and not o.alone)
